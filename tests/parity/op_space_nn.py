"""Entries of op_space.py for networks: convolution, pooling, normalisation, recurrence, losses; and writes in place."""
from op_draw import FLOATS, INTS, LAYOUTS, PLAIN, VALUES
from op_space import flag, op

# A NaN, or an infinity, in an input of these would be in most results; they get such values less often.
IMAGE_VALUES = PLAIN * 3 + ('nan', 'inf', 'huge', 'tiny', 'zeros', 'mixed')
# Whether a weight counts where it meets padding differs between the ways in which torch convolves: no NaN there.
WEIGHT_VALUES = PLAIN * 3 + ('tiny', 'zeros')


UNREPEATED = ('dense', 'permuted', 'stepped', 'inner_one', 'offset', 'selected')


def pair(c, low, high):
    """Mostly the same number twice."""
    a = c.int(low, high)
    return (a, a) if c.chance(0.5) else (a, c.int(low, high))


def pair_text(p):
    return f'{p[0]},{p[1]}'


# --- convolution

def conv_sizes(c):
    """Batch, channels in and out for each group, groups, kernel, image."""
    groups = c.pick(1, 1, 1, 2, 3)
    if c.long:
        return c.pick((2, 16, 32, 1, (3, 3), (9, 7)), (2, 40, 40, 1, (5, 5), (12, 12)), (7, 16, 32, 1, (3, 3), (30, 30)),
                      (3, 32, 16, 1, (3, 3), (8, 8)), (2, 16, 80, 1, (3, 3), (6, 5)), (1, 80, 80, 1, (5, 5), (6, 6)),
                      (2, 8, 8, 4, (3, 3), (9, 9)), (2, 1, 1, 24, (3, 3), (9, 9)), (3, 24, 40, 1, (1, 1), (7, 9)))
    return (c.pick(0, 1, 1, 2, 3), c.pick(1, 1, 2, 3, 4), c.pick(1, 2, 3, 5, 8), groups,
            pair(c, 1, 5 if c.chance(0.3) else 3), (c.int(1, 10), c.int(1, 10)))


def conv_inputs(c, transposed=False, layouts=LAYOUTS, values=IMAGE_VALUES, weights=WEIGHT_VALUES):
    batch, c_in, c_out, groups, kernel, image = conv_sizes(c)
    dtype = c.float_type()
    x = (batch, c_in * groups) + image
    if c.chance(0.06):
        x = x[1:]
    w = (c_in * groups, c_out) + kernel if transposed else (c_out * groups, c_in) + kernel
    c.tensor('x', c.mutated(x), dtype, values, layouts=layouts)
    c.tensor('w', c.mutated(w), c.another_type(dtype), weights, layouts=layouts)
    bias = c.chance(0.7)
    if bias:
        c.tensor('b', c.mutated((c_out * groups,)), c.another_type(dtype), values, layouts=layouts)
    return 'b' if bias else '-', groups


def conv_options(c, groups):
    stride = pair(c, 1, 3) if c.chance(0.5) else (1, 1)
    padding = pair(c, 0, 3) if c.chance(0.6) else (0, 0)
    dilation = pair(c, 1, 2) if c.chance(0.25) else (1, 1)
    det = f'stride={pair_text(stride)} padding={pair_text(padding)} dilation={pair_text(dilation)} groups={groups}'
    return det, stride, padding, dilation


@op('conv2d')
def conv2d(c, _):
    bias, groups = conv_inputs(c)
    c.by_norm, c.sums_only = ('results', 'grads'), True
    det, stride, padding, dilation = conv_options(c, groups)
    c.call(f'y = conv2d x w {bias} {det}',
           f"y = F.conv2d(x, w, {'b' if bias == 'b' else None}, {stride}, {padding}, {dilation}, {groups})")


@op('conv_transpose2d')
def conv_transpose2d(c, _):
    bias, groups = conv_inputs(c, True)
    c.by_norm, c.sums_only = ('results', 'grads'), True
    det, stride, padding, dilation = conv_options(c, groups)
    extra = pair(c, 0, 2) if c.chance(0.3) else (0, 0)
    c.call(f'y = conv_transpose2d x w {bias} {det} output_padding={pair_text(extra)}',
           f"y = F.conv_transpose2d(x, w, {'b' if bias == 'b' else None}, {stride}, {padding}, {extra}, {groups}, {dilation})")


@op('conv1d')
def conv1d(c, _):
    dtype = c.float_type()
    batch, c_in, c_out, groups = c.pick(0, 1, 2, 3), c.pick(1, 2, 3), c.pick(1, 2, 5), c.pick(1, 1, 2)
    kernel, length = c.int(1, 5), c.int(1, 20)
    x = (batch, c_in * groups, length)
    c.tensor('x', c.mutated(x[1:] if c.chance(0.06) else x), dtype, IMAGE_VALUES)
    c.tensor('w', c.mutated((c_out * groups, c_in, kernel)), c.another_type(dtype), WEIGHT_VALUES)
    bias = c.chance(0.7)
    if bias:
        c.tensor('b', c.mutated((c_out * groups,)), c.another_type(dtype), IMAGE_VALUES)
    stride, padding, dilation = c.int(1, 3), c.int(0, 3), c.int(1, 2)
    c.by_norm, c.sums_only = ('results', 'grads'), True
    c.call(f"y = conv1d x w {'b' if bias else '-'} stride={stride} padding={padding} dilation={dilation} groups={groups}",
           f"y = F.conv1d(x, w, {'b' if bias else None}, {stride}, {padding}, {dilation}, {groups})")


@op('conv2d relu', 'conv2d max_pool2d', 'conv2d relu max_pool2d', 'conv2d max_pool2d relu')
def conv_chain(c, name):
    """What a convolution may be merged with."""
    if 'pool' not in name:
        bias, groups = conv_inputs(c)
    elif c.chance(0.4):  # sums without rounding: pixels that are equal are so on both sides
        bias, groups = conv_inputs(c, values=('ties', 'zeros'), weights=('ties', 'zeros'))
    else:  # none that would be equal but for rounding, which then picks the largest
        bias, groups = conv_inputs(c, layouts=UNREPEATED)
    c.by_norm = ('results', 'grads')
    det, stride, padding, dilation = conv_options(c, groups)
    if c.chance(0.6):
        stride = dilation = (1, 1)
        det = f'padding={pair_text(padding)} groups={groups}'
    c.smooth = False
    c.call(f'h0 = conv2d x w {bias} {det}',
           f"h0 = F.conv2d(x, w, {'b' if bias == 'b' else None}, {stride}, {padding}, {dilation}, {groups})")
    steps = name.split()[1:]
    for i, step in enumerate(steps):
        out = 'y' if i == len(steps) - 1 else f'h{i + 1}'
        if step == 'relu':
            c.call(f'{out} = relu h{i}', f'{out} = torch.relu(h{i})')
        else:
            det, python = pool_options(c, c.pick((2, 2), (2, 2), (3, 3), (2, 3)), plain=c.chance(0.6))
            c.call(f'{out} = max_pool2d h{i} {det}', f'{out} = F.max_pool2d(h{i}, {python})')
    if c.chance(0.15):
        c.results = ['y', 'h0']


# --- pooling

def images(c, kinds=IMAGE_VALUES):
    shape = (c.pick(0, 1, 1, 2, 3), c.pick(1, 2, 3, 5, 17), c.int(1, 12), c.int(1, 12))
    if c.long:
        shape = c.pick((2, 20, 9, 7), (3, 70, 15, 16), (2, 83, 14, 14), (1, 3, 20, 18))
    if c.chance(0.08):
        shape = shape[1:]
    return c.tensor('x', c.mutated(shape), c.float_type(), kinds)


def pool_options(c, kernel, plain=False):
    stride, padding, ceil = (0, 0), (0, 0), False
    if not plain:
        stride = pair(c, 1, 3) if c.chance(0.7) else (0, 0)
        padding = pair(c, 0, max(kernel) // 2 + (1 if c.chance(0.05) else 0))
        ceil = c.chance(0.4)
    det = f'kernel={pair_text(kernel)} stride={pair_text(stride)} padding={pair_text(padding)} ceil_mode={flag(ceil)}'
    return det, f'{kernel}, {stride if stride != (0, 0) else None}, {padding}, ceil_mode={ceil}'


@op('max_pool2d')
def max_pool2d(c, _):
    images(c, IMAGE_VALUES + ('ties', 'ties'))
    det, python = pool_options(c, pair(c, 1, 4))
    c.exact, c.smooth = True, False
    c.call(f'y = max_pool2d x {det}', f'y = F.max_pool2d(x, {python})')


@op('avg_pool2d')
def avg_pool2d(c, _):
    images(c)
    det, python = pool_options(c, pair(c, 1, 4))
    exclude = c.chance(0.5)
    c.call(f'y = avg_pool2d x {det} exclude_padding={flag(exclude)}',
           f'y = F.avg_pool2d(x, {python}, count_include_pad={not exclude})')


@op('adaptive_avg_pool2d', 'adaptive_max_pool2d')
def adaptive_pool(c, name):
    images(c, IMAGE_VALUES + ('ties',))
    h, w = c.pick((1, 1), pair(c, 1, 7), pair(c, 0, 4))
    c.exact = c.smooth = False
    if 'max' in name:
        c.exact = True
    c.call(f'y = {name} x {h} {w}', f'y = F.{name}(x, ({h}, {w}))')


@op('interpolate')
def interpolate(c, _):
    images(c)
    h, w = pair(c, 1, 17) if c.chance(0.97) else (0, 2)
    mode = c.pick(0, 1)
    align = mode == 1 and c.chance(0.5)
    c.exact, c.by_norm = mode == 0, ('results', 'grads')
    text = f", mode='bilinear', align_corners={align}" if mode else ''
    c.call(f'y = interpolate x {h} {w} {mode} {flag(align)}', f'y = F.interpolate(x, ({h}, {w}){text})')


# --- normalisation

def norm_tensor(c, name, shape, dtype, kinds=WEIGHT_VALUES):
    if not c.chance(0.75):
        return None
    c.tensor(name, c.mutated(shape), c.another_type(dtype), kinds)
    return name


def batch_norm_inputs(c, layouts=LAYOUTS):
    channels = c.size(1)
    shape = (c.size(), channels) + c.pick((), (), (c.size(1),), (c.size(1), c.size(1)), (3, 4))
    if c.long:
        shape = c.pick((40, 19), (3, 33, 16, 18), (2, 32, 9, 9), (70, 8, 5))
        channels = shape[1]
    dtype = c.float_type()
    c.tensor('x', shape, dtype, IMAGE_VALUES, layouts=layouts)
    w, b = norm_tensor(c, 'w', (channels,), dtype), norm_tensor(c, 'b', (channels,), dtype)
    training = c.chance(0.6)
    stats = c.chance(0.8) if training else c.chance(0.97)
    if stats:
        c.tensor('m', (channels,), c.another_type(dtype), PLAIN, grad=0, layouts=('dense',))
        c.tensor('v', (channels,), c.another_type(dtype), ('positive',), grad=0, layouts=('dense',))
    momentum, eps = c.pick(0.1, 0.5, 1, 0.01), c.pick(1e-5, 1e-3, 0.1)
    options = [f'weight={w}' if w else '', f'bias={b}' if b else '', 'running_mean=m running_var=v' if stats else '',
               f'training={flag(training)} momentum={momentum} eps={eps}']
    m, v = ('m', 'v') if stats else (None, None)
    return ' '.join(filter(None, options)), f'x, {m}, {v}, {w}, {b}, {training}, {momentum}, {eps}', stats


@op('batch_norm')
def batch_norm(c, _):
    det, python, stats = batch_norm_inputs(c)
    c.by_norm = ('results', 'grads')
    c.call(f'y = batch_norm x {det}', f'y = F.batch_norm({python})')
    c.results = ['y', 'm', 'v'] if stats else ['y']


@op('batch_norm relu', 'batch_norm add', 'batch_norm add relu', 'batch_norm relu max_pool2d', 'batch_norm max_pool2d')
def batch_norm_chain(c, name):
    """What a batch norm may be merged with."""
    # Expanded, all pixels of a window would be equal but for rounding, which then picks the largest.
    det, python, _ = batch_norm_inputs(c, UNREPEATED if 'pool' in name else LAYOUTS)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'h0 = batch_norm x {det}', f'h0 = F.batch_norm({python})')
    steps = name.split()[1:]
    for i, step in enumerate(steps):
        out = 'y' if i == len(steps) - 1 else f'h{i + 1}'
        if step == 'relu':
            c.call(f'{out} = relu h{i}', f'{out} = torch.relu(h{i})')
        elif step == 'add':
            x = c.inputs[0]
            c.tensor('s', c.broadcast(x.base.shape) if c.chance(0.2) else shape_of(x), x.dtype, IMAGE_VALUES)
            first, second = (f'h{i}', 's') if c.chance(0.5) else ('s', f'h{i}')
            c.call(f'{out} = add {first} {second}', f'{out} = {first} + {second}')
        else:
            det, python = pool_options(c, c.pick((2, 2), (2, 2), (3, 3)), plain=c.chance(0.7))
            c.call(f'{out} = max_pool2d h{i} {det}', f'{out} = F.max_pool2d(h{i}, {python})')


def shape_of(given):
    """The shape of an input, behind its views."""
    t = given.tensor()
    for view in given.views:
        name, *args = view
        t = t[(slice(None),) * args[0] + (slice(args[1], args[2], args[3]),)] if name == 'slice' else getattr(t, name)(*args)
    return tuple(t.shape)


@op('layer_norm', 'rms_norm')
def row_norm(c, name):
    dtype = c.float_type()
    shape = c.shape(1, 4, 0)
    n = c.int(1, len(shape))
    c.tensor('x', shape, dtype, IMAGE_VALUES)
    rows = shape[len(shape) - n:]
    w = norm_tensor(c, 'w', rows, dtype)
    eps = c.pick(1e-5, 1e-3, 0.1)
    c.by_norm = ('results', 'grads')
    if name == 'layer_norm':
        b = norm_tensor(c, 'b', rows, dtype)
        c.call(f"y = layer_norm x {n} {w or '-'} {b or '-'} {eps}", f'y = F.layer_norm(x, {rows}, {w}, {b}, {eps})')
    else:
        dims = tuple(range(-n, 0))
        text = f'x * torch.rsqrt(x.square().mean({dims}, keepdim=True) + {eps})'
        c.call(f"y = rms_norm x {n} {w or '-'} {eps}", f"y = {text}{f' * {w}' if w else ''}")


@op('group_norm')
def group_norm(c, _):
    dtype, groups = c.float_type(), c.int(1, 4)
    channels = groups * c.int(1, 4) if c.chance(0.95) else groups + 1
    shape = (c.size(), channels) + c.pick((), (c.size(1),), (c.size(1), c.size(1)))
    if c.long:
        shape, groups = c.pick(((2, 32, 17, 20), 8), ((3, 20, 33), 4))
        channels = shape[1]
    c.tensor('x', shape, dtype, IMAGE_VALUES)
    w, b = norm_tensor(c, 'w', (channels,), dtype), norm_tensor(c, 'b', (channels,), dtype)
    eps = c.pick(1e-5, 1e-3, 0.1)
    c.by_norm = ('results', 'grads')
    c.call(f"y = group_norm x {groups} {w or '-'} {b or '-'} {eps}", f'y = F.group_norm(x, {groups}, {w}, {b}, {eps})')


# --- recurrent

RNN = {'rnn_tanh': 1, 'rnn_relu': 1, 'gru': 3, 'lstm': 4}


@op(*RNN)
def recurrent(c, name):
    gates, dtype = RNN[name], c.pick(*FLOATS) if c.chance(0.97) else c.any_type()
    grad = 0 if name == 'rnn_relu' and dtype == 'bf16' else 0.85  # rounding decides which units are on
    t, batch, width, hidden = c.int(1, 6), c.pick(1, 2, 3, 5), c.pick(1, 2, 3, 5, 8), c.pick(1, 2, 4, 7)
    if c.long:
        t, batch, width, hidden = c.pick((4, 37, 33, 50), (6, 1, 20, 32), (3, 8, 16, 16))
    c.tensor('x', c.mutated((t, batch, width)), dtype, PLAIN, grad)
    c.tensor('wi', c.mutated((gates * hidden, width)), c.another_type(dtype), ('normal', 'ties'), grad)
    c.tensor('wh', c.mutated((gates * hidden, hidden)), c.another_type(dtype), ('normal', 'ties'), grad)
    weights, det = ['wi', 'wh'], 'w_ih=wi w_hh=wh'
    if c.chance(0.7):
        c.tensor('bi', (gates * hidden,), dtype, PLAIN, grad)
        c.tensor('bh', (gates * hidden,), dtype, PLAIN, grad)
        weights, det = weights + ['bi', 'bh'], det + ' b_ih=bi b_hh=bh'
    states = []
    for state in ('h', 'c') if name == 'lstm' else ('h',):
        states.append(state if c.chance(0.6) else '-')
        if states[-1] != '-':
            c.tensor(state, c.mutated((batch, hidden)), dtype, PLAIN, grad)
    reverse, c.smooth, c.by_norm = c.chance(0.4), name != 'rnn_relu', ('results', 'grads')
    given = [f'{s}.unsqueeze(0)' if s != '-' else f'torch.zeros(1, x.shape[1], {hidden}, dtype=x.dtype)' for s in states]
    start = f"({', '.join(given)})" if name == 'lstm' else given[0]
    ends = [f'{s}n' for s in 'hc'[:len(states)]]
    c.call(f"y {' '.join(ends)} = {name} x {' '.join(states)} {flag(reverse)} {det}",
           f"y, {', '.join(ends)} = torch._VF.{name}({'x.flip(0)' if reverse else 'x'}, {start}, [{', '.join(weights)}], "
           f"{len(weights) == 4}, 1, 0.0, False, False, False)", 'y', *ends)
    for s in states:
        if s != '-':  # torch.nn.RNN checks it
            c.torch.append(f"assert {s}.shape == (x.shape[1], {hidden}), '{s} has the wrong shape'")
    c.torch.append('; '.join(['y = y.flip(0)'] * reverse + [f'{e} = {e}[0]' for e in ends]))
    if c.chance(0.5):
        c.results = ['y']


# --- losses

def reduction_text(c):
    reduction = c.int(0, 2)
    return f'reduction={reduction}', f"reduction='{('mean', 'sum', 'none')[reduction]}'"


def by_elements(c, kinds=VALUES, target_kinds=VALUES):
    dtype, shape = c.float_type(), c.shape()
    c.tensor('x', shape, dtype, kinds)
    c.tensor('t', shape if c.chance(0.95) else c.broadcast(shape), c.another_type(dtype), target_kinds)
    return shape, dtype


@op('mse_loss', 'l1_loss')
def simple_loss(c, name):
    by_elements(c)
    c.smooth, c.by_norm = name == 'mse_loss', ('grads',)
    det, python = reduction_text(c)
    c.call(f'y = {name} x t {det}', f'y = F.{name}(x, t, {python})')


@op('smooth_l1_loss', 'huber_loss')
def smooth_loss(c, name):
    by_elements(c)
    c.smooth = False
    beta = c.pick(1, 0.5, 2.5, 1e-3)
    det, python = reduction_text(c)
    word = 'beta' if name == 'smooth_l1_loss' else 'delta'
    c.call(f'y = {name} x t beta={beta} {det}', f'y = F.{name}(x, t, {python}, {word}={beta})')


def element_weight(c, shape, dtype):
    if not c.chance(0.3):
        return None
    c.tensor('w', c.broadcast(shape), c.another_type(dtype), ('positive', 'normal', 'zeros'), grad=0)
    return 'w'


@op('bce_loss')
def bce_loss(c, _):
    kinds = ('unit', 'unit', 'unit_border') if c.chance(0.95) else ('normal', 'nan')
    shape, dtype = by_elements(c, kinds, ('unit', 'unit', 'unit_border'))
    w = element_weight(c, shape, dtype)
    det, python = reduction_text(c)
    c.smooth, c.by_norm = False, ('grads',)
    c.call(f"y = bce_loss x t {f'weight={w} ' if w else ''}{det}", f'y = F.binary_cross_entropy(x, t, {w}, {python})')


@op('bce_with_logits_loss')
def bce_with_logits_loss(c, _):
    shape, dtype = by_elements(c, VALUES, ('unit', 'unit', 'unit_border', 'normal'))
    w = element_weight(c, shape, dtype)
    positive = 'p' if c.chance(0.3) else None
    if positive:
        c.tensor('p', c.broadcast(shape), c.another_type(dtype), ('positive',), grad=0)
    det, python = reduction_text(c)
    options = f"{f'weight={w} ' if w else ''}{'pos_weight=p ' if positive else ''}"
    c.by_norm = ('grads',)
    c.call(f'y = bce_with_logits_loss x t {options}{det}',
           f'y = F.binary_cross_entropy_with_logits(x, t, {w}, {python}, pos_weight={positive})')


@op('kl_div_loss')
def kl_div_loss(c, _):
    logs, batch_mean = c.chance(0.4), c.chance(0.2)
    shape, _ = by_elements(c, VALUES, ('normal', 'nan') if logs else ('unit', 'unit_border', 'zeros', 'nan'))
    det, python = reduction_text(c)
    if batch_mean:
        det, python = 'batch_mean=1', "reduction='batchmean'"
    c.call(f'y = kl_div_loss x t log_target={flag(logs)} {det}', f'y = F.kl_div(x, t, {python}, log_target={logs})')


@op('hinge_embedding_loss')
def hinge_embedding_loss(c, _):
    by_elements(c, VALUES, ('sign',))
    margin = c.pick(1, 0.5, 2)
    det, python = reduction_text(c)
    c.smooth = False
    c.call(f'y = hinge_embedding_loss x t margin={margin} {det}', f'y = F.hinge_embedding_loss(x, t, {margin}, {python})')


@op('margin_ranking_loss')
def margin_ranking_loss(c, _):
    dtype, shape = c.float_type(), c.shape()
    c.tensor('a', shape, dtype)
    c.tensor('b', shape if c.chance(0.9) else c.broadcast(shape), c.another_type(dtype))
    c.tensor('t', shape if c.chance(0.9) else c.broadcast(shape), c.another_type(dtype), ('sign',), grad=0.2)
    margin = c.pick(0, 0.5, 2)
    det, python = reduction_text(c)
    c.smooth = False
    c.call(f'y = margin_ranking_loss a b t margin={margin} {det}', f'y = F.margin_ranking_loss(a, b, t, {margin}, {python})')


@op('cosine_embedding_loss')
def cosine_embedding_loss(c, _):
    dtype, shape = c.float_type(), (c.size(), c.size())
    if c.chance(0.1):
        shape = shape[1:]
    c.tensor('a', c.mutated(shape), dtype, PLAIN + ('zeros', 'nan', 'inf', 'tiny', 'huge'))
    c.tensor('b', shape, c.another_type(dtype), PLAIN + ('zeros',))
    c.tensor('t', shape[:-1], c.another_type(dtype), ('sign',), grad=0)
    margin = c.pick(0, 0.5, -0.5)
    det, python = reduction_text(c)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'y = cosine_embedding_loss a b t margin={margin} {det}',
           f'y = F.cosine_embedding_loss(a, b, t, {margin}, {python})')


@op('cosine_similarity')
def cosine_similarity(c, _):
    dtype, shape = c.float_type(), c.shape(1, 4)
    c.tensor('a', shape if c.chance(0.9) else c.broadcast(shape), dtype, IMAGE_VALUES)
    c.tensor('b', shape if c.chance(0.9) else c.broadcast(shape), c.another_type(dtype), IMAGE_VALUES)
    dim, eps = c.dim(shape), c.pick(1e-8, 1e-3)
    c.smooth, c.by_norm = False, ('results', 'grads')
    c.call(f'y = cosine_similarity a b {dim} {eps}', f'y = F.cosine_similarity(a, b, {dim}, {eps})')


def class_inputs(c, kinds):
    classes = c.size(1)
    inner = c.pick((), (), (), (c.size(),), (2, 3), (c.size(1), 2))
    batch = (c.size(),)
    if c.long:
        batch, classes, inner = c.pick(((33,), 10, ()), ((3,), 77, ()), ((70,), 300, ()), ((4,), 40, (9,)))
    if c.chance(0.1):
        batch, inner = (), ()
    dtype = c.float_type()
    c.tensor('x', c.mutated(batch + (classes,) + inner), dtype, kinds)
    return dtype, classes, batch + inner


def class_options(c, dtype, classes, ignored):
    det, python = [], []
    if c.chance(0.35):
        c.tensor('w', c.mutated((classes,)), c.another_type(dtype), ('positive', 'positive', 'zeros'), grad=0)
        det, python = ['weight=w'], ['w']
    if ignored is not None:
        det.append(f'ignore_index={ignored}')
        python.append(f'ignore_index={ignored}')
    d, p = reduction_text(c)
    return det + [d], python + [p]


@op('nll_loss')
def nll_loss(c, _):
    dtype, classes, target = class_inputs(c, VALUES)
    ignored = c.pick(None, None, 0, 1, -100, -1)
    draw_targets(c, target, classes, ignored)
    det, python = class_options(c, dtype, classes, ignored)
    c.call(f"y = nll_loss x t {' '.join(det)}", f"y = F.nll_loss(x, t, {', '.join(python)})")


def draw_targets(c, shape, classes, ignored):
    def values(base):
        t = c.numpy.integers(0, classes, base)
        if ignored is not None:
            t = c.numpy.choice([0, 1], base, p=[0.8, 0.2]) * (ignored - t) + t
        if t.size and c.chance(0.02):
            t.flat[0] = classes
        return t
    c.tensor('t', c.mutated(shape), c.pick('i64', 'i64', 'i64', 'i64', 'i64', 'i32'), grad=0, values=values)


@op('cross_entropy')
def cross_entropy(c, _):
    dtype, classes, target = class_inputs(c, PLAIN + ('nan', 'inf', 'huge', 'tiny', 'zeros', 'border'))
    smoothing = c.pick(0, 0, 0.1, 0.5, 1)
    ignored = None
    if c.chance(0.2):
        c.tensor('t', c.inputs[0].base.shape if not c.inputs[0].views else shape_of(c.inputs[0]), c.another_type(dtype),
                 ('unit',))
    else:
        ignored = c.pick(None, None, 0, 1, -100, -1)
        draw_targets(c, target, classes, ignored)
    det, python = class_options(c, dtype, classes, ignored)
    c.by_norm = ('results', 'grads')
    if smoothing:
        det.append(f'label_smoothing={smoothing}')
        python.append(f'label_smoothing={smoothing}')
    c.call(f"y = cross_entropy x t {' '.join(det)}", f"y = F.cross_entropy(x, t, {', '.join(python)})")


# --- writing in place

def place(c):
    """A tensor `t` to write to and its memory `t0`; sometimes the result of an operation, with a history."""
    shape, dtype = c.shape(), c.any_type()
    history = dtype in FLOATS and c.chance(0.3)
    c.strides_matter = True
    c.tensor('t', shape, dtype, grad=1 if history else c.pick(0, 0, 0, 1))
    if history:
        c.call('u = mul_scalar t 2', 'u = t * 2')
        return 'u', shape, dtype
    return 't', shape, dtype


def written(c, target):
    """The tensor, and the memory that it is a view of."""
    memory = c.inputs[0].stages[0]
    return [target] if target == memory or target == 'u' or c.inputs[0].leaf != 'none' else [target, memory]


@op('fill_', 'mul_')
def write_number(c, name):
    target, _, dtype = place(c)
    value = c.pick(0, 1, -2, 0.5, 3)
    if dtype in INTS:
        value = c.pick(0, 1, 2)
    c.exact = True
    c.det.append(f'{name} {target} {value}')
    c.torch.append(f'{target}.{name}({value})')
    c.results = written(c, target)


@op('copy_')
def copy_(c, _):
    target, shape, dtype = place(c)
    c.tensor('s', c.broadcast(shape), c.pick(dtype, dtype, c.any_type()), ('normal', 'ties', 'zeros'))
    c.undefined = dtype == 'u8' and c.inputs[-1].dtype in FLOATS
    c.exact = True
    c.det.append(f'copy_ {target} s')
    c.torch.append(f'{target}.copy_(s)')
    c.results = written(c, target)


@op('add_')
def add_(c, _):
    target, shape, dtype = place(c)
    c.tensor('s', c.broadcast(shape), c.pick(dtype, dtype, c.any_type()))
    alpha = c.pick(1, 1, -1, 2, 0.5)
    c.det.append(f'add_ {target} s {alpha}')
    c.torch.append(f'{target}.add_(s, alpha={alpha})')
    c.results = written(c, target)


@op('write')
def write(c, _):
    """det_write() takes memory; torch copies from a tensor of the same type."""
    target, shape, dtype = place(c)
    c.tensor('s', shape, dtype, grad=0, layouts=('dense',))
    c.exact = True
    c.det.append(f'write {target} <s>')
    c.torch.append(f'{target}.copy_(s)')
    c.results = written(c, target)
