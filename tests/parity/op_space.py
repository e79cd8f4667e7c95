"""What can be called: for each public function, how a random call of it looks here and in torch.

An entry draws tensors and arguments from a Case and says what to call. A function without an entry
is found by op_parity.py, which compares this table with the headers.
"""
import torch
import torch.nn.functional as F

from op_draw import FLOATS, INTS, PLAIN, VALUES, list_text

SPACE = {}  # name: function(case)


def op(*names):
    """Registers an entry for each name; the entry gets the case and the name."""
    def register(draw):
        for name in names:
            assert name not in SPACE, name
            SPACE[name] = lambda case, name=name: draw(case, name)
        return draw
    return register


def flag(v):
    return str(int(v))


# --- element by element, one argument

UNARY = ('neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh sigmoid erf relu relu6 selu '
         'silu mish hardsigmoid hardswish logsigmoid softsign floor ceil round trunc isnan isinf isfinite logical_not').split()
EXACT_UNARY = set('neg abs sign relu relu6 floor ceil round trunc isnan isinf isfinite logical_not'.split())
KINKED = EXACT_UNARY | set('hardsigmoid hardswish leaky_relu elu selu softplus hardtanh clamp softsign'.split())


FROM_RESULT = set('tanh sigmoid expm1 exp tan silu mish gelu gelu_tanh softplus logsigmoid'.split())


def unary_case(c, det, expression, name, dtype=None):
    c.tensor('x', c.shape(), dtype or c.any_type())
    c.exact, c.smooth, c.by_norm = name in EXACT_UNARY, name not in KINKED, ('grads',) * (name in FROM_RESULT)
    c.call(det, f'y = {expression}')


@op(*UNARY)
def unary(c, name):
    unary_case(c, f'y = {name} x', f'{"torch" if hasattr(torch, name) else "F"}.{name}(x)', name)


@op('leaky_relu')
def leaky_relu(c, name):
    slope = c.pick(0.01, 0.5, 0, -0.3, 1, 2.5)
    unary_case(c, f'y = leaky_relu x {slope}', f'F.leaky_relu(x, {slope})', name)


@op('elu')
def elu(c, name):
    alpha = c.pick(1, 0.5, 2.0, 0)
    unary_case(c, f'y = elu x {alpha}', f'F.elu(x, {alpha})', name)


@op('gelu', 'gelu_tanh')
def gelu(c, name):
    unary_case(c, f'y = {name} x', 'F.gelu(x)' if name == 'gelu' else "F.gelu(x, approximate='tanh')", name)


@op('softplus')
def softplus(c, name):
    beta, threshold = c.pick(1, 0.5, 2, 10), c.pick(20, 1, 0, 30.5)
    unary_case(c, f'y = softplus x {beta} {threshold}', f'F.softplus(x, {beta}, {threshold})', name)


@op('hardtanh')
def hardtanh(c, name):
    dtype = c.any_type()
    low, high = c.pick((-1, 1), (0, 6), (-2.5, 0.5), (1, 1), (2, -1), (-1e30, 1e30) if dtype in FLOATS else (0, 3))
    unary_case(c, f'y = hardtanh x {low} {high}', f'F.hardtanh(x, {low}, {high})', name, dtype)


@op('clamp')
def clamp(c, name):
    low, high = c.pick((-1, 1), (0, 6), (-2.5, 0.5), (1, 1), (2, 1), ('-inf', 2), (-1, 'inf'), ('-inf', 0.5))
    dtype = c.any_type()
    if dtype == 'u8' and isinstance(low, (int, float)) and low < 0:
        low = 0  # torch would take -1 for 255
    text = {'-inf': 'None', 'inf': 'None'}
    unary_case(c, f'y = clamp x {low} {high}', f'torch.clamp(x, {text.get(low, low)}, {text.get(high, high)})', name, dtype)


@op('to')
def to(c, _):
    source, target = c.moved_type(), c.moved_type()
    kinds = VALUES if target in FLOATS + ('bool', 'f16') else ('normal', 'ties', 'zeros', 'wide')
    if c.chance(0.05):
        kinds = VALUES
    c.tensor('x', c.shape(), source, kinds)
    c.exact = True
    values = c.inputs[0].base
    low, high = {'i64': (-2.0**63, 2.0**63), 'i32': (-2.0**31, 2.0**31), 'u8': (0, 256), 'i16': (-2.0**15, 2.0**15), 'i8': (-128, 128)}.get(target, (0, 0))
    if source in FLOATS + ('f16',) and high and values.size:
        c.undefined = not bool(((values > low - 1) & (values < high)).all())  # C++ leaves the conversion undefined
    c.call(f'y = to x {target}', f'y = x.to({target})')


# --- element by element, two arguments

ARITHMETIC = 'add sub mul div pow maximum minimum fmod remainder atan2'.split()
COMPARISONS = 'eq ne lt le gt ge logical_and logical_or logical_xor'.split()
ROUNDED_ONCE = set('maximum minimum'.split() + COMPARISONS)


def binary_flags(c, name):
    c.exact = name in ROUNDED_ONCE
    c.smooth = name in ('add', 'sub', 'mul', 'div', 'pow', 'atan2')


@op(*ARITHMETIC, *COMPARISONS)
def binary(c, name):
    shape = c.shape()
    first, second = c.any_type(), c.any_type()
    if c.chance(0.5):
        second = first
    kinds = ('normal', 'ties', 'ties', 'zeros', 'nan', 'inf', 'border', 'huge', 'tiny', 'mixed')
    c.tensor('a', c.broadcast(shape) if c.chance(0.3) else shape, first, kinds if name in ROUNDED_ONCE else VALUES)
    c.tensor('b', c.broadcast(shape) if c.chance(0.5) else shape, second, kinds if name in ROUNDED_ONCE else VALUES)
    if name in ('fmod', 'remainder') and second in INTS:
        divisors = c.inputs[1].base
        divisors[divisors == -1] = -3  # torch crashes when it divides the smallest integer by -1
    binary_flags(c, name)
    c.call(f'y = {name} a b', f'y = torch.{name}(a, b)')


TENSORS_ONLY = set('maximum minimum atan2 logical_and logical_or logical_xor'.split())


@op(*(f'{name}_scalar' for name in ARITHMETIC + COMPARISONS))
def binary_scalar(c, name):
    name = name.removesuffix('_scalar')
    b = c.pick(0, 1, -1, 2, 3, -2, 0.5, -0.5, 2.5, 1e-3, 7, -3, 1e30, "float('inf')", "-float('inf')", "float('nan')", -0.0)
    c.tensor('a', c.shape(), c.any_type())
    if b == 0 and c.inputs[0].dtype not in FLOATS:
        b = 0  # Python's -0.0 would make floats of integers
    if b == -1 and name in ('fmod', 'remainder') and c.inputs[0].dtype in INTS:
        b = -3  # torch crashes when it divides the smallest integer by -1
    binary_flags(c, name)
    text = {"float('inf')": 'inf', "-float('inf')": '-inf', "float('nan')": 'nan'}.get(b, b)
    other = f'torch.full((), {b}, dtype=torch.result_type(a, {b}))' if name in TENSORS_ONLY else b
    if name == 'atan2' and c.inputs[0].dtype not in FLOATS:
        other = f'torch.full((), {b}, dtype=f32)'
    c.call(f'y = {name}_scalar a {text}', f'y = torch.{name}(a, {other})')


@op('where')
def where(c, _):
    shape, dtype = c.shape(), c.any_type()
    c.tensor('m', c.broadcast(shape), 'bool' if c.chance(0.97) else c.any_type())
    c.tensor('a', c.broadcast(shape), dtype)
    c.tensor('b', c.broadcast(shape), dtype if c.chance(0.6) else c.any_type())
    c.moves()
    c.call('y = where m a b', 'y = torch.where(m, a, b)')


@op('masked_fill')
def masked_fill(c, _):
    shape = c.shape()
    value = c.pick(0, 1, -1, 0.5, 1e30, "float('inf')", "-float('inf')", "float('nan')")
    text = {"float('inf')": 'inf', "-float('inf')": '-inf', "float('nan')": 'nan'}.get(value, value)
    c.tensor('x', shape if c.chance(0.9) else c.broadcast(shape), c.any_type())
    c.tensor('m', c.broadcast(shape) if c.chance(0.5) else shape, 'bool' if c.chance(0.97) else c.any_type())
    c.moves()
    c.call(f'y = masked_fill x m {text}', f'y = x.masked_fill(m, {value})')


# --- reductions

REDUCTIONS = 'sum mean max min prod logsumexp'.split()


@op(*REDUCTIONS)
def reduction(c, name):
    shape = c.tensor('x', c.shape(), c.any_type())
    c.exact, c.smooth = name in ('max', 'min'), name not in ('max', 'min')
    arguments = ', '.join(map(str, range(max(len(shape), 1))))
    c.call(f'y = {name} x', f'y = x.logsumexp(({arguments},))' if name == 'logsumexp' else f'y = x.{name}()')


def prod_over(shape, dims, keepdim):
    """torch multiplies along one dim at a time."""
    n = max(len(shape), 1)
    if not dims:
        return 'y = x.prod()'
    if len({d % n for d in dims}) < len(dims) or any(not -n <= d < n for d in dims):
        return "raise ValueError('dims')"
    return 'y = x' + ''.join(f'.prod({d}, keepdim={keepdim})' for d in sorted((d % n for d in dims), reverse=True))


@op(*(f'{name}_over' for name in REDUCTIONS))
def reduction_over(c, name):
    name = name.removesuffix('_over')
    shape = c.tensor('x', c.shape(), c.any_type())
    dims, keepdim = c.dims(shape), c.chance(0.5)
    c.exact, c.smooth = name in ('max', 'min'), name not in ('max', 'min')
    text = f'y = x.{dict(max="amax", min="amin").get(name, name)}({tuple(dims)}, keepdim={keepdim})'
    if name == 'prod':
        text = prod_over(shape, dims, keepdim)
    c.call(f'y = {name}_over x {list_text(dims)} {flag(keepdim)}', text)


@op('var', 'std')
def variance(c, name):
    c.tensor('x', c.shape(), c.float_type())
    correction = c.pick(0, 1, 1, 2)
    c.call(f'y = {name} x {correction}', f'y = torch.{name}(x, dim=None, correction={correction})')


@op('var_over', 'std_over')
def variance_over(c, name):
    name = name.removesuffix('_over')
    shape = c.tensor('x', c.shape(), c.float_type())
    dims, keepdim, correction = c.dims(shape), c.chance(0.5), c.pick(0, 1, 1, 2)
    c.call(f'y = {name}_over x {list_text(dims)} {correction} {flag(keepdim)}',
           f'y = torch.{name}(x, dim={tuple(dims)}, correction={correction}, keepdim={keepdim})')


def norm_power(c):
    return c.pick('inf', 1, 2, 2, 3, 0.5, 1.5)


@op('norm')
def norm(c, _):
    c.tensor('x', c.shape(), c.float_type())
    p = norm_power(c)
    c.smooth = False
    c.call(f'y = norm x {p}', f"y = torch.norm(x, {p if p != 'inf' else repr(p).replace(repr('inf'), 'INF')})")


@op('norm_over')
def norm_over(c, _):
    shape = c.tensor('x', c.shape(), c.float_type())
    p, dims, keepdim = norm_power(c), c.dims(shape), c.chance(0.5)
    c.smooth = False
    c.call(f'y = norm_over x {p} {list_text(dims)} {flag(keepdim)}',
           f"y = torch.norm(x, {'INF' if p == 'inf' else p}, {tuple(dims)}, {keepdim})")


TIED = ('normal', 'normal', 'ties', 'ties', 'zeros', 'nan', 'inf', 'mixed', 'huge', 'tiny')


@op('max_along', 'min_along')
def extreme_along(c, name):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, keepdim = c.dim(shape), c.chance(0.5)
    c.exact, c.smooth = True, False
    c.call(f'y i = {name} x {dim} {flag(keepdim)}', f'y, i = x.{name[:3]}({dim}, keepdim={keepdim})', 'y', 'i')


@op('argmax', 'argmin')
def arg_extreme(c, name):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, keepdim = c.dim(shape), c.chance(0.5)
    c.call(f'y = {name} x {dim} {flag(keepdim)}', f'y = x.{name}({dim}, keepdim={keepdim})')


@op('cumsum')
def cumsum(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    dim = c.dim(shape)
    c.call(f'y = cumsum x {dim}', f'y = x.cumsum({dim})')


@op('topk')
def topk(c, _):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, largest = c.dim(shape), c.chance(0.5)
    n = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    k = c.int(0, n) if c.chance(0.95) else n + 1
    c.exact, c.smooth = True, False
    c.free_choice = ('i', 'x', dim)
    c.call(f'y i = topk x {k} {dim} {flag(largest)}', f'y, i = x.topk({k}, {dim}, largest={largest})', 'y', 'i')


@op('sort')
def sort(c, _):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, descending = c.dim(shape), c.chance(0.5)
    c.exact, c.smooth = True, False
    c.call(f'y i = sort x {dim} {flag(descending)}', f'y, i = x.sort(dim={dim}, descending={descending}, stable=True)',
           'y', 'i')


# --- products

def inner_size(c):
    return c.pick(*((31, 64, 100, 257, 2100) if c.long else (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)))


def outer_size(c):
    return c.pick(*((1, 8, 33, 70, 110) if c.long else (0, 1, 1, 2, 3, 4, 5, 6, 8, 9, 16, 17)))


@op('matmul')
def matmul(c, _):
    dtype, k = c.float_type(), inner_size(c)
    batch = c.pick((), (), (2,), (3, 2), (1, 2), (0,), (2, 1, 2))
    a = c.pick((k,), (outer_size(c), k), c.broadcast(batch) + (outer_size(c), k), batch + (outer_size(c), k))
    b = c.pick((k,), (k, outer_size(c)), c.broadcast(batch) + (k, outer_size(c)), batch + (k, outer_size(c)))
    c.tensor('a', c.mutated(a), dtype)
    c.tensor('b', c.mutated(b), c.another_type(dtype))
    c.call('y = matmul a b', 'y = a @ b')


def linear_inputs(c):
    dtype, k, out = c.float_type(), inner_size(c), outer_size(c)
    batch = c.pick((outer_size(c),), (outer_size(c),), (2, 3), (2, 1, 3), (), (1,), (3, 2, 5), (2, 0), (1, 4, 1))
    c.tensor('x', c.mutated(batch + (k,)), dtype)
    c.tensor('w', c.mutated((out, k)), c.another_type(dtype))
    if c.chance(0.7):
        c.tensor('b', c.mutated((out,)), c.another_type(dtype))
        return 'x w b', 'x, w, b'
    return 'x w -', 'x, w'


@op('linear')
def linear(c, _):
    det, python = linear_inputs(c)
    c.call(f'y = linear {det}', f'y = F.linear({python})')


@op('linear relu', 'linear gelu')
def linear_activation(c, name):
    activation = name.split()[1]
    det, python = linear_inputs(c)
    c.smooth = activation == 'gelu'
    c.call(f'h = linear {det}', f'h = F.linear({python})')
    c.call(f'y = {activation} h', f'y = F.{activation}(h)')
    c.results = ['y'] if c.chance(0.8) else ['y', 'h']


@op('attention')
def attention(c, _):
    dtype = c.float_type()
    t, s, d, e = (c.size(1) for _ in range(4))
    if c.long:
        t, s, d, e = c.pick((60, 60, 32, 32), (100, 70, 17, 33), (130, 130, 16, 16), (33, 257, 64, 64))
    batch = c.pick((), (2,), (2, 3), (1, 2), (2, 1), (0,))
    causal, scale, mask = c.chance(0.3), c.pick(None, 0.5, 0.2, 1.5), c.pick(None, None, 'bool', dtype)
    # What is hidden does not count here; in the formula for torch, 0 times NaN would.
    kinds = PLAIN + ('tiny', 'zeros') + (('nan', 'inf') if not causal and not mask else ())
    c.tensor('q', c.mutated((c.broadcast(batch) if c.chance(0.1) else batch) + (t, d)), dtype, kinds)
    c.tensor('k', c.mutated((c.broadcast(batch) if c.chance(0.1) else batch) + (s, d)), dtype, kinds)
    c.tensor('v', c.mutated(batch + (s, e)), c.another_type(dtype), kinds)
    options = [f'causal={flag(causal)}'] if causal else []
    scores = f"(q @ k.transpose(-2, -1)) * {scale or f'{d} ** -0.5'}"
    if scale:
        options.append(f'scale={scale}')
    if mask:
        c.tensor('m', c.broadcast(batch + (t, s)), mask, PLAIN + ('zeros',))
        options.append('mask=m')
        scores = f'({scores}).masked_fill(~m, -INF)' if mask == 'bool' else f'({scores} + m)'
    if causal:
        scores = f'(lambda s: s.masked_fill(~torch.ones_like(s, dtype=torch.bool).tril(), -INF))({scores})'
    c.by_norm, c.scaled = ('results', 'grads'), True
    c.call(f"y = attention q k v {' '.join(options)}", f'scores = {scores}')
    if causal or mask:  # a query that sees no key passes no gradient
        c.torch.append('seen = ~(scores == -INF).all(-1, keepdim=True)')
        c.torch.append('y = torch.where(seen, torch.softmax(scores.masked_fill(~seen, 0), -1) @ v, NAN)')
    else:
        c.torch.append('y = torch.softmax(scores, -1) @ v')


# --- shape

def factors(c, count):
    """A shape with that many elements; rarely with another number of them."""
    shape, rest = [], count
    for _ in range(c.int(0, 3)):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0][:12] if rest else [0, 1, 2]
        shape.append(c.pick(*divisors))
        rest = rest // shape[-1] if shape[-1] else rest
    if rest != 1 or c.chance(0.2):
        shape.insert(c.int(0, len(shape)), rest)
    if shape and c.chance(0.3):
        shape[c.int(0, len(shape) - 1)] = -1
    if shape and c.chance(0.04):
        shape[c.int(0, len(shape) - 1)] += 1
    return tuple(shape)


@op('reshape', 'view')
def reshape(c, name):
    shape = c.shape()
    count = 1
    for s in shape:
        count *= s
    c.tensor('x', shape, c.moved_type())
    c.moves()
    c.strides_matter = name == 'view'
    target = factors(c, count)
    c.call(f'y = {name} x {list_text(target)}', f'y = x.{name}({target})')


@op('flatten')
def flatten(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    start, end = c.dim(shape), c.dim(shape)
    c.moves()
    c.call(f'y = flatten x {start} {end}', f'y = x.flatten({start}, {end})')


@op('permute')
def permute(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    n = len(shape)
    order = [d - n if c.chance(0.3) else d for d in c.random.sample(range(n), n)]
    if order and c.chance(0.03):
        order[0] = order[-1] if c.chance(0.5) else n
    c.moves()
    c.call(f'y = permute x {list_text(order)}', f'y = x.permute({tuple(order)})')


@op('transpose')
def transpose(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    first, second = c.dim(shape), c.dim(shape)
    c.moves()
    c.call(f'y = transpose x {first} {second}', f'y = x.transpose({first}, {second})')


@op('expand')
def expand(c, _):
    target = c.shape()
    c.tensor('x', c.broadcast(target), c.moved_type())
    sizes = [-1 if i >= len(target) - len(c.inputs[0].base.shape) and c.chance(0.2) else s for i, s in enumerate(target)]
    c.moves()
    c.call(f'y = expand x {list_text(sizes)}', f'y = x.expand({tuple(sizes)})')


@op('squeeze')
def squeeze(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    dim = c.dim(shape)
    c.moves()
    c.call(f'y = squeeze x {dim}', f'y = x.squeeze({dim})')


@op('unsqueeze')
def unsqueeze(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    dim = c.dim(shape, 1)
    c.moves()
    c.call(f'y = unsqueeze x {dim}', f'y = x.unsqueeze({dim})')


@op('squeeze_all', 'contiguous', 'clone', 'detach')
def copies(c, name):
    c.tensor('x', c.shape(), c.moved_type())
    c.moves()
    c.call(f'y = {name} x', f"y = x.{name.removesuffix('_all')}()")


@op('slice')
def slice_(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    dim = c.dim(shape)
    start, end, step = c.int(-20, 20), c.int(-20, 20), c.pick(1, 1, 2, 3, 5)
    if c.chance(0.03):
        step = c.pick(0, -1)
    c.exact = True
    n = len(shape)
    index = f"x[{':, ' * (dim % n)}{start}:{end}:{step}]" if n and -n <= dim < n else f'x.narrow({dim}, 0, 1)'
    c.call(f'y = slice x {dim} {start} {end} {step}', f'y = {index}')


@op('select')
def select(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    dim = c.dim(shape)
    n = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    index = c.int(-n, max(n - 1, -n)) if c.chance(0.95) else c.pick(n, -n - 1)
    c.moves()
    c.call(f'y = select x {dim} {index}', f'y = x.select({dim}, {index})')


def several(c, shape, dim, same_size):
    """One to four tensors that fit together but for the size of dim."""
    dtype, names = c.moved_type(), []
    for name in 'abde'[:c.int(1, 4)]:
        part = list(shape)
        if part and not same_size and -len(part) <= dim < len(part):
            part[dim] = c.size()
        if c.chance(0.03) and not same_size:
            part = [0]
        c.tensor(name, c.mutated(part), dtype if c.chance(0.85) else c.moved_type())
        names.append(name)
    return names


@op('concat')
def concat(c, _):
    shape = c.shape(1, 4) if c.chance(0.97) else ()
    dim = c.dim(shape)
    names = several(c, shape, dim, False)
    c.moves()
    c.call(f"y = concat [{','.join(names)}] {dim}", f"y = torch.cat([{', '.join(names)}], {dim})")


@op('stack')
def stack(c, _):
    shape = c.shape(0, 4)
    dim = c.dim(shape, 1)
    names = several(c, shape, dim, True)
    c.moves()
    c.call(f"y = stack [{','.join(names)}] {dim}", f"y = torch.stack([{', '.join(names)}], {dim})")


@op('split')
def split(c, _):
    shape = c.shape(1, 4)
    dim = c.dim(shape)
    n = shape[dim] if -len(shape) <= dim < len(shape) else 1
    size = c.int(max(1, (n + 7) // 8), max(n, 1) + 2)
    if c.chance(0.05):
        size = c.pick(0, -1)
    pieces = max(1, -(-n // size)) if size > 0 else 1
    names = [f'y{i}' for i in range(pieces)]
    c.tensor('x', shape, c.moved_type())
    c.moves()
    c.call(f"{' '.join(names)} = split x {size} {dim}", f"{', '.join(names)}, = x.split({size}, {dim})", *names)


@op('pad')
def pad(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    pads = [c.int(-1, 3) for _ in range(2 * c.int(0, max(len(shape), 1)))]
    if c.chance(0.03):
        pads.append(1)
    value = c.pick(0, 0, 1, 0.5, -2)
    if c.inputs[0].dtype in INTS and c.inputs[0].dtype != 'bool':
        value = c.pick(0, 1, 3)
    c.moves()
    c.call(f'y = pad x {list_text(pads)} {value}', f'y = F.pad(x, {tuple(pads)}, value={value})')


@op('flip')
def flip(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    dims = c.dims(shape)
    c.moves()
    c.call(f'y = flip x {list_text(dims)}', f'y = x.flip({tuple(dims)})')


@op('tril', 'triu')
def triangle(c, name):
    c.tensor('x', c.shape(2, 4) if c.chance(0.95) else c.shape(0, 2), c.any_type())
    diagonal = c.int(-6, 6)
    c.moves()
    c.call(f'y = {name} x {diagonal}', f'y = x.{name}({diagonal})')


# --- by index

def index_type(c):
    return c.pick('i32', 'i32', 'i32', 'u8', 'f32') if c.chance(0.1) else 'i64'


@op('index_select')
def index_select(c, _):
    shape = c.tensor('x', c.shape(), c.moved_type())
    dim = c.dim(shape)
    n = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    several = c.pick((c.size(),), (c.size(),), (c.size(),), (), (2, 2)) if shape else c.pick((), (1,))
    # torch writes behind the result for several indices of a number
    c.indices('i', several if n else (0,), n, index_type(c))
    c.moves()
    c.call(f'y = index_select x {dim} i', f'y = x.index_select({dim}, i)')


@op('gather')
def gather(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    dim = c.dim(shape)
    inside = bool(shape) and -len(shape) <= dim < len(shape)
    index = [c.int(0, s) if c.chance(0.3) else s for s in shape]
    if inside:
        index[dim] = c.size() if shape[dim] else 0
    c.indices('i', c.mutated(index), shape[dim] if inside else 1, index_type(c))
    c.moves()
    c.call(f'y = gather x {dim} i', f'y = x.gather({dim}, i)')


@op('scatter_add')
def scatter_add(c, _):
    dtype = c.any_type()
    shape = c.tensor('x', c.shape(), dtype)
    dim = c.dim(shape)
    inside = bool(shape) and -len(shape) <= dim < len(shape)
    index = [c.int(0, s) if c.chance(0.3) else s for s in shape]
    if inside:
        index[dim] = c.size() if shape[dim] else 0
    c.indices('i', c.mutated(index), shape[dim] if inside else 1, index_type(c))
    c.tensor('s', c.mutated([n + (c.int(0, 2) if c.chance(0.2) else 0) for n in index]), c.another_type(dtype))
    c.call(f'y = scatter_add x {dim} i s', f'y = x.scatter_add({dim}, i, s)')


@op('one_hot')
def one_hot(c, _):
    classes = c.int(1, 9)
    c.indices('i', c.shape(0, 3), classes, index_type(c))
    n = c.pick(classes, classes, classes + 2, -1)
    c.call(f'y = one_hot i {n}', f'y = F.one_hot(i, {n})')


@op('embedding')
def embedding(c, _):
    rows, width = c.pick((c.size(1), c.size()), (5, 150) if c.long else (c.size(1), c.size()))
    c.indices('i', c.shape(0, 3) if not c.long else (300,), rows, index_type(c))
    c.tensor('w', c.mutated((rows, width)), c.float_type())
    padding = c.int(0, rows - 1) if c.chance(0.3) else -1
    c.moves()
    c.call(f'y = embedding i w {padding}', f"y = F.embedding(i, w{f', padding_idx={padding}' if padding >= 0 else ''})")


# --- softmax, dropout

@op('softmax', 'log_softmax')
def softmax(c, name):
    shape = c.tensor('x', c.shape(), c.float_type())
    dim = c.dim(shape)
    c.by_norm = ('grads',) if name == 'softmax' else ('results', 'grads')  # a difference: digits of x, not of y
    c.call(f'y = {name} x {dim}', f'y = x.{name}({dim})')


@op('dropout', 'dropout_channels')
def dropout(c, name):
    p, training = c.pick(0, 0, 1, 0.5, 0.1, 0.9, 1.5, -0.1), c.chance(0.7)
    c.shapes_only = training and 0 < p < 1
    c.exact = True
    channels = name == 'dropout_channels'
    c.tensor('x', c.shape(2, 4) if channels else c.shape(), c.float_type())
    c.call(f'y = {name} x {p} {flag(training)}', f"y = F.{'dropout2d' if channels else 'dropout'}(x, {p}, {training})")


# --- random and other new tensors

@op('rand', 'randn', 'empty')
def random_tensor(c, name):
    dtype, shape = c.any_type(), c.shape()
    c.shapes_only = True
    c.call(f'y = {name} {dtype} {list_text(shape)}', f'y = torch.{name}({shape}, dtype={dtype})')


@op('randint')
def randint(c, _):
    low, shape = c.int(-5, 5), c.shape()
    high = low + c.int(-1, 9)
    c.shapes_only = True
    c.call(f'y = randint {low} {high} {list_text(shape)}', f'y = torch.randint({low}, {high}, {shape})')


@op('randperm')
def randperm(c, _):
    n = c.int(-1, 30)
    c.moves()
    c.call(f'p = randperm {n}', f'p = torch.randperm({n})')
    c.call('y i = sort p 0 0', 'y, i = p.sort()')


@op('zeros', 'ones')
def constant(c, name):
    dtype, shape = c.any_type(), c.shape()
    c.moves()
    c.call(f'y = {name} {dtype} {list_text(shape)}', f'y = torch.{name}({shape}, dtype={dtype})')


@op('full')
def full(c, _):
    dtype, shape = c.any_type(), c.shape()
    value = c.pick(0, 1, -1, 2.5, 1e-40, 300)
    if dtype in FLOATS:
        value = c.pick(value, 'INF', '-INF', 'NAN', 1e30, -0.0)
    if dtype == 'u8':
        value = c.pick(0, 1, 255, 2.5)
    c.moves()
    c.call(f'y = full {dtype} {list_text(shape)} {value}', f'y = torch.full({shape}, {value}, dtype={dtype})')


@op('scalar')
def scalar(c, _):
    value = c.pick(0, 1, -1.5, 1e30, 'INF', 'NAN', 0.1)
    c.moves()
    c.call(f'y = scalar {value}', f'y = torch.tensor({value}, dtype=f32)')


@op('arange')
def arange(c, _):
    dtype = c.pick('f32', 'f64', 'bf16', 'i64', 'i32', 'u8', 'bool')
    start, step = c.pick(0, 1, -3, 2), c.pick(1, 1, 2, 3, -1)
    end = start + c.int(-2, 20)
    if dtype in FLOATS:
        start, end, step = c.pick((0, 1, 0.1), (start, end, step), (0.5, 3.25, 0.25), (1, -1, -0.3), (0, 5, 0))
    if dtype == 'u8':
        start, end = abs(start), abs(start) + c.int(0, 20)
    c.call(f'y = arange {dtype} {start} {end} {step}', f'y = torch.arange({start}, {end}, {step}, dtype={dtype})')


@op('eye')
def eye(c, _):
    dtype, n = c.any_type(), c.int(-1, 9)
    c.moves()
    c.call(f'y = eye {dtype} {n}', f'y = torch.eye({n}, dtype={dtype})')


@op('item')
def item(c, _):
    c.tensor('x', c.pick((), (1,), (1, 1), (2,), (0,)), c.any_type())
    c.moves()
    c.call('y = item x', 'y = torch.tensor(float(x.item()), dtype=torch.float64)')
