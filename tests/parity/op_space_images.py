"""Entries of op_space.py for sequences and volumes: convolution, pooling; windows of images."""
from op_draw import PLAIN
from op_space import flag, op
from op_space_nn import IMAGE_VALUES, UNREPEATED, WEIGHT_VALUES, pair, pair_text, shape_of


def triple(c, low, high):
    a = c.int(low, high)
    return (a, a, a) if c.chance(0.5) else (a, c.int(low, high), c.int(low, high))


def numbers(p):
    return ','.join(map(str, p))


@op('conv_transpose1d')
def conv_transpose1d(c, _):
    dtype = c.float_type()
    batch, c_in, c_out, groups = c.pick(1, 2, 3), c.pick(1, 2, 3), c.pick(1, 2, 5), c.pick(1, 1, 2)
    kernel, length = c.int(1, 5), c.int(1, 12)
    x = (batch, c_in * groups, length)
    c.tensor('x', c.mutated(x[1:] if c.chance(0.06) else x), dtype, IMAGE_VALUES)
    c.tensor('w', c.mutated((c_in * groups, c_out, kernel)), c.another_type(dtype), WEIGHT_VALUES)
    bias = c.chance(0.7)
    if bias:
        c.tensor('b', c.mutated((c_out * groups,)), c.another_type(dtype), IMAGE_VALUES)
    stride, padding, dilation = c.int(1, 3), c.int(0, 2), c.int(1, 2)
    extra = c.int(0, 2) if c.chance(0.3) else 0
    c.by_norm, c.sums_only = ('results', 'grads'), True
    c.call(f"y = conv_transpose1d x w {'b' if bias else '-'} stride={stride} padding={padding} dilation={dilation} "
           f'groups={groups} output_padding={extra}',
           f"y = F.conv_transpose1d(x, w, {'b' if bias else None}, {stride}, {padding}, {extra}, {groups}, {dilation})")


@op('conv3d')
def conv3d(c, _):
    dtype, groups = c.float_type(), c.pick(1, 1, 2)
    c_in, c_out, kernel = c.pick(1, 2, 3), c.pick(1, 2, 5), triple(c, 1, 3)
    x = (c.pick(1, 1, 2), c_in * groups) + tuple(c.int(1, 7) for _ in range(3))
    c.tensor('x', c.mutated(x[1:] if c.chance(0.06) else x), dtype, IMAGE_VALUES)
    c.tensor('w', c.mutated((c_out * groups, c_in) + kernel), c.another_type(dtype), WEIGHT_VALUES)
    bias = c.chance(0.7)
    if bias:
        c.tensor('b', c.mutated((c_out * groups,)), c.another_type(dtype), IMAGE_VALUES)
    stride, padding = triple(c, 1, 2), triple(c, 0, 2)
    dilation = triple(c, 1, 2) if c.chance(0.25) else (1, 1, 1)
    c.by_norm, c.sums_only = ('results', 'grads'), True
    c.call(f"y = conv3d x w {'b' if bias else '-'} stride={numbers(stride)} padding={numbers(padding)} "
           f'dilation={numbers(dilation)} groups={groups}',
           f"y = F.conv3d(x, w, {'b' if bias else None}, {stride}, {padding}, {dilation}, {groups})")


def inside(shape, kernel, stride, padding, dilation):
    """padding, without that of dims in which a window would see nothing else: torch writes outside of its memory then."""
    def blind(size, k, s, p, d):
        return any(all(not 0 <= at + i * d < size for i in range(k)) for at in range(-p, size + p, s))
    return tuple(0 if blind(*dim) else dim[3] for dim in zip(shape[-len(kernel):], kernel, stride, padding, dilation))


def pool_case(c, name, dims, kernel, stride, padding):
    maximum = name.startswith('max')
    ceil, dilation = c.chance(0.4), (1,) * dims
    if maximum and c.chance(0.3):
        dilation = tuple(c.int(1, 2) for _ in range(dims))
        padding = inside(shape_of(c.inputs[0]), kernel, stride, padding, dilation)
    det = (f'kernel={numbers(kernel)} stride={numbers(stride)} padding={numbers(padding)} ceil_mode={flag(ceil)} '
           f'dilation={numbers(dilation)}')
    python = f'{kernel}, {stride}, {padding}, ceil_mode={ceil}'
    if maximum:
        c.exact, c.smooth = True, False
        c.call(f'y = {name} x {det}', f'y = F.{name}(x, {python}, dilation={dilation})')
        return
    exclude = c.chance(0.5)
    c.call(f'y = {name} x {det} exclude_padding={flag(exclude)}', f'y = F.{name}(x, {python}, count_include_pad={not exclude})')


# Windows whose elements are all the same would be picked by their order.
def pooled(c, shape, name):
    values = PLAIN[:3] + ('inf', 'huge') if name.startswith('max') else IMAGE_VALUES
    c.tensor('x', c.mutated(shape[1:] if c.chance(0.08) else shape), c.pick('f32', 'f64', 'bf16'), values,
             layouts=UNREPEATED if name.startswith('max') else UNREPEATED + ('expanded',))


@op('max_pool1d', 'avg_pool1d')
def pool1d(c, name):
    pooled(c, (c.pick(1, 2, 3), c.int(1, 4), c.int(1, 16)), name)
    kernel = c.int(1, 4)
    pool_case(c, name, 1, (kernel,), (c.int(1, 3),), (c.int(0, kernel // 2),))


@op('max_pool3d', 'avg_pool3d')
def pool3d(c, name):
    pooled(c, (c.pick(1, 2), c.int(1, 3)) + tuple(c.int(1, 7) for _ in range(3)), name)
    kernel = triple(c, 1, 3)
    if c.chance(0.95):
        kernel = tuple(map(min, kernel, shape_of(c.inputs[0])[-3:]))
    pool_case(c, name, 3, kernel, triple(c, 1, 3), tuple(c.int(0, k // 2) for k in kernel))


@op('max_pool2d dilated')
def dilated_pool(c, _):
    pooled(c, (c.pick(1, 2), c.int(1, 3), c.int(1, 9), c.int(1, 9)), 'max')
    kernel = pair(c, 1, 3)
    stride, padding, dilation = pair(c, 1, 3), tuple(c.int(0, k // 2) for k in kernel), pair(c, 1, 3)
    padding = inside(shape_of(c.inputs[0]), kernel, stride, padding, dilation)
    ceil = c.chance(0.4)
    c.exact, c.smooth = True, False
    c.call(f'y = max_pool2d x kernel={pair_text(kernel)} stride={pair_text(stride)} padding={pair_text(padding)} '
           f'dilation={pair_text(dilation)} ceil_mode={flag(ceil)}',
           f'y = F.max_pool2d(x, {kernel}, {stride}, {padding}, {dilation}, ceil_mode={ceil})')


@op('adaptive_avg_pool1d', 'adaptive_max_pool1d')
def adaptive1d(c, name):
    pooled(c, (c.pick(1, 2, 3), c.int(1, 4), c.int(1, 16)), 'max' if 'max' in name else 'avg')
    out = c.int(1, 6)
    c.exact, c.smooth = 'max' in name, False
    c.call(f'y = {name} x {out}', f'y = F.{name}(x, {out})')


@op('adaptive_avg_pool3d', 'adaptive_max_pool3d')
def adaptive3d(c, name):
    pooled(c, (c.pick(1, 2), c.int(1, 3)) + tuple(c.int(1, 7) for _ in range(3)), 'max' if 'max' in name else 'avg')
    out = triple(c, 1, 4)
    c.exact, c.smooth = 'max' in name, False
    c.call(f"y = {name} x {' '.join(map(str, out))}", f'y = F.{name}(x, {out})')


@op('unfold')
def unfold(c, _):
    shape = (c.pick(1, 2, 3), c.int(1, 4), c.int(1, 9), c.int(1, 9))
    c.tensor('x', c.mutated(shape[1:] if c.chance(0.08) else shape), c.pick('f32', 'f64', 'bf16'))
    kernel, stride, padding, dilation = pair(c, 1, 3), pair(c, 1, 3), pair(c, 0, 2), pair(c, 1, 2)
    c.call(f'y = unfold x kernel={pair_text(kernel)} stride={pair_text(stride)} padding={pair_text(padding)} '
           f'dilation={pair_text(dilation)}', f'y = F.unfold(x, {kernel}, {dilation}, {padding}, {stride})')


# --- losses

REDUCTION = ('mean', 'sum', 'none')


@op('triplet_margin_loss')
def triplet(c, _):
    dtype, shape = c.float_type(), c.shape(1, 3, 1)
    for name in ('a', 'p', 'n'):
        c.tensor(name, c.mutated(shape), c.another_type(dtype), ('normal', 'ties') + ('wide',) * (dtype != 'bf16'))
    margin, p, swap, reduction = c.pick(1, 0.5, 2), c.pick(1, 2, 2) if dtype == 'bf16' else c.pick(1, 2, 3), c.chance(0.4), c.int(0, 2)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'y = triplet_margin_loss a p n margin={margin} p={p} eps=1e-6 swap={flag(swap)} reduction={reduction}',
           f'y = F.triplet_margin_loss(a, p, n, {margin}, {p}, 1e-6, {swap}, reduction={REDUCTION[reduction]!r})')


@op('pairwise_distance')
def pairwise_distance(c, _):
    dtype, shape = c.float_type(), c.shape(1, 3, 1)
    c.tensor('a', shape, dtype, ('normal', 'ties', 'wide'))
    c.tensor('b', c.broadcast(shape), c.another_type(dtype), ('normal', 'ties', 'wide'))
    p, keepdim = c.pick(1, 2, 2, 3), c.chance(0.5)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'y = pairwise_distance a b {p} 1e-6 {flag(keepdim)}', f'y = F.pairwise_distance(a, b, {p}, 1e-6, {keepdim})')


@op('soft_margin_loss')
def soft_margin(c, _):
    dtype, shape, reduction = c.float_type(), c.shape(), c.int(0, 2)
    c.tensor('x', shape, dtype, PLAIN)
    c.tensor('t', c.mutated(shape), c.another_type(dtype), ('sign',), grad=0)
    c.by_norm = ('results', 'grads')
    c.call(f'y = soft_margin_loss x t reduction={reduction}', f'y = F.soft_margin_loss(x, t, reduction={REDUCTION[reduction]!r})')


@op('multilabel_soft_margin_loss')
def multilabel_soft_margin(c, _):
    dtype, shape, reduction = c.pick('f32', 'f64', 'bf16'), c.shape(1, 2, 1), c.int(0, 2)
    c.tensor('x', shape, dtype, PLAIN)
    c.tensor('t', c.mutated(shape), dtype, grad=0, values=lambda base: c.numpy.integers(0, 2, base))
    weight = c.chance(0.3)
    if weight:
        c.tensor('w', shape[-1:], dtype, ('positive',), grad=0)
    c.by_norm = ('results', 'grads')
    c.call(f"y = multilabel_soft_margin_loss x t reduction={reduction}{' weight=w' if weight else ''}",
           f"y = F.multilabel_soft_margin_loss(x, t, {'w' if weight else None}, reduction={REDUCTION[reduction]!r})")


@op('multilabel_margin_loss')
def multilabel_margin(c, _):
    classes, reduction = c.int(1, 9), c.int(0, 2)
    shape = c.pick((classes,), (c.int(1, 5), classes))
    c.tensor('x', shape, c.pick('f32', 'f64'), PLAIN)

    def rows(base):
        def row():
            some = c.random.sample(range(classes), c.int(0, classes))
            return (some + [-1] * classes)[:classes]
        return [row() for _ in range(base[0])] if len(base) == 2 else row()
    c.tensor('t', shape, 'i64', grad=0, values=rows, layouts=('dense',))
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'y = multilabel_margin_loss x t reduction={reduction}',
           f'y = F.multilabel_margin_loss(x, t, reduction={REDUCTION[reduction]!r})')


@op('multi_margin_loss')
def multi_margin(c, _):
    classes, reduction, dtype = c.int(1, 9), c.int(0, 2), c.pick('f32', 'f64')
    batch = c.pick((), (c.int(1, 5),))
    c.tensor('x', batch + (classes,), dtype, PLAIN)
    c.indices('t', batch, classes)
    p, margin, weight = c.pick(1, 2), c.pick(1, 0.5, 2), c.chance(0.3)
    if weight:
        c.tensor('w', (classes,), dtype, ('positive',), grad=0)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f"y = multi_margin_loss x t p={p} margin={margin} reduction={reduction}{' weight=w' if weight else ''}",
           f"y = F.multi_margin_loss(x, t, {p}, {margin}, {'w' if weight else None}, reduction={REDUCTION[reduction]!r})")


@op('poisson_nll_loss')
def poisson(c, _):
    dtype, shape, reduction = c.pick('f32', 'f64', 'bf16'), c.shape(), c.int(0, 2)
    log_input, full = c.chance(0.5), c.chance(0.5)
    c.tensor('x', shape, dtype, ('normal', 'ties') if log_input else ('positive',))
    c.tensor('t', shape, dtype, grad=0, values=lambda base: c.numpy.integers(0, 6, base))
    c.by_norm = ('results', 'grads')
    c.call(f'y = poisson_nll_loss x t log_input={flag(log_input)} full={flag(full)} eps=1e-8 reduction={reduction}',
           f'y = F.poisson_nll_loss(x, t, {log_input}, {full}, None, 1e-8, reduction={REDUCTION[reduction]!r})')


@op('gaussian_nll_loss')
def gaussian(c, _):
    dtype, shape, reduction = c.pick('f32', 'f64'), c.shape(1, 3, 1), c.int(0, 2)
    c.tensor('x', shape, dtype, PLAIN[:3])
    c.tensor('t', shape, dtype, PLAIN[:3])
    c.tensor('v', c.mutated(c.pick(shape, shape, shape[:-1], shape[:-1] + (1,))), dtype, ('positive', 'positive', 'zeros'))
    full, eps = c.chance(0.5), c.pick(1e-6, 0.3)
    c.by_norm = ('results', 'grads')
    c.call(f'y = gaussian_nll_loss x t v full={flag(full)} eps={eps} reduction={reduction}',
           f'y = F.gaussian_nll_loss(x, t, v, full={full}, eps={eps}, reduction={REDUCTION[reduction]!r})')
