"""Entries of op_space.py for what moves elements, bits, sums of products in Einstein's notation."""
from op_draw import FLOATS, INTS, PLAIN, list_text
from op_space import op

BITWISE = 'bitwise_and bitwise_or bitwise_xor'.split()
SHIFTS = 'bitwise_left_shift bitwise_right_shift'.split()


@op(*BITWISE)
def bitwise(c, name):
    shape = c.shape()
    first = c.pick(*INTS) if c.chance(0.95) else c.any_type()
    c.tensor('a', c.broadcast(shape) if c.chance(0.3) else shape, first)
    c.tensor('b', c.broadcast(shape) if c.chance(0.5) else shape, first if c.chance(0.6) else c.pick(*INTS))
    c.exact = True
    c.call(f'y = {name} a b', f'y = torch.{name}(a, b)')


@op(*(f'{name}_scalar' for name in BITWISE))
def bitwise_scalar(c, name):
    b = c.pick(0, 1, 2, 7, 255, 64)
    c.tensor('a', c.shape(), c.pick(*INTS) if c.chance(0.95) else c.any_type())
    c.exact = True
    c.call(f'y = {name} a {b}', f"y = torch.{name.removesuffix('_scalar')}(a, {b})")


@op('bitwise_not')
def bitwise_not(c, _):
    c.tensor('x', c.shape(), c.pick(*INTS) if c.chance(0.95) else c.any_type())
    c.exact = True
    c.call('y = bitwise_not x', 'y = torch.bitwise_not(x)')


@op(*SHIFTS)
def shift(c, name):
    shape, dtype = c.shape(), c.pick('i64', 'i32', 'u8')
    c.tensor('a', shape, dtype)
    c.tensor('b', c.broadcast(shape), dtype, grad=0, values=lambda base: c.numpy.integers(0, 8, base))
    c.exact = True
    c.call(f'y = {name} a b', f'y = torch.{name}(a, b)')


@op(*(f'{name}_scalar' for name in SHIFTS))
def shift_scalar(c, name):
    b = c.int(0, 7)
    c.tensor('a', c.shape(), c.pick('i64', 'i32', 'u8'))
    c.exact = True
    c.call(f'y = {name} a {b}', f"y = torch.{name.removesuffix('_scalar')}(a, {b})")


@op('repeat')
def repeat(c, _):
    shape = c.tensor('x', c.shape(0, 3), c.any_type())
    times = [c.pick(1, 1, 2, 3, 0) for _ in range(len(shape) + c.pick(0, 0, 1, 2))]
    if times and c.chance(0.04):
        times = times[:-1] if c.chance(0.5) else [-1] + times[1:]
    c.exact = True
    c.call(f'y = repeat x {list_text(times)}', f'y = x.repeat({tuple(times)})')


@op('roll')
def roll(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    dims = [] if c.chance(0.2) else [d for d in c.dims(shape)]
    c.moves()
    if not dims:
        shift = c.int(-5, 9)
        c.call(f'y = roll x [{shift}] -', f'y = x.roll({shift})')
        return
    shifts = [c.int(-5, 9) for _ in dims]
    c.call(f'y = roll x {list_text(shifts)} {list_text(dims)}', f'y = x.roll({tuple(shifts)}, {tuple(dims)})')


@op('chunk')
def chunk(c, _):
    shape = c.shape(1, 4, 1)
    dim = c.dim(shape)
    n = shape[dim] if -len(shape) <= dim < len(shape) else 1
    chunks = c.int(1, 8) if c.chance(0.95) else 0
    size = -(-n // chunks) if chunks else n
    names = [f'y{i}' for i in range(max(1, -(-n // size)))]
    c.tensor('x', shape, c.any_type())
    c.moves()
    c.call(f"{' '.join(names)} = chunk x {chunks} {dim}", f"{', '.join(names)}, = x.chunk({chunks}, {dim})", *names)


@op('diagonal')
def diagonal(c, _):
    shape = c.tensor('x', c.shape(1, 4) if c.chance(0.1) else c.shape(2, 4), c.any_type())
    first, second, offset = c.dim(shape), c.dim(shape), c.int(-5, 5)
    n = len(shape)
    inside = all(-n <= d < n for d in (first, second)) and (second - first) % n
    if inside:  # torch refuses to begin behind the end
        rows, columns = shape[first], shape[second]
        offset = max(-rows, min(offset, columns))
    c.moves()
    c.call(f'y = diagonal x {offset} {first} {second}', f'y = x.diagonal({offset}, {first}, {second})')


@op('unfold_dim')
def unfold_dim(c, _):
    shape = c.tensor('x', c.shape(), c.any_type())
    dim = c.dim(shape)
    n = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    size, step = c.int(0, n) if c.chance(0.95) else n + 1, c.int(1, 4)
    c.exact = c.signed_zeros = True
    c.call(f'y = unfold_dim x {dim} {size} {step}', f'y = x.unfold({dim}, {size}, {step})')


@op('pixel_shuffle')
def pixel_shuffle(c, name):
    factor = c.int(1, 3)
    channels = c.int(1, 3) * factor**2 + (1 if c.chance(0.05) else 0)
    c.tensor('x', c.mutated(c.pick((), (c.size(),), (2, 2)) + (channels, c.int(1, 5), c.int(1, 5))), c.any_type())
    c.moves()
    c.call(f'y = pixel_shuffle x {factor}', f'y = F.pixel_shuffle(x, {factor})')


@op('pixel_unshuffle')
def pixel_unshuffle(c, name):
    factor = c.int(1, 3)
    h, w = c.int(1, 4) * factor, c.int(1, 4) * factor + (1 if c.chance(0.05) else 0)
    c.tensor('x', c.mutated(c.pick((), (c.size(),), (2, 2)) + (c.int(1, 4), h, w)), c.any_type())
    c.moves()
    c.call(f'y = pixel_unshuffle x {factor}', f'y = F.pixel_unshuffle(x, {factor})')


@op('pad_mode')
def pad_mode(c, _):
    """torch pads the last dims of images; here any."""
    n = c.int(1, 3)
    shape = c.tensor('x', (c.size(1), c.int(1, 3)) + tuple(c.int(2, 8) for _ in range(n)), c.pick(*FLOATS))
    mode = c.int(1, 3)
    most = [(size - 1 if mode == 1 else size if mode == 3 else 4) for size in reversed(shape[-n:])]
    pads = [c.int(0, min(m, 4)) for m in most for _ in range(2)]
    if c.chance(0.04):
        pads[0] = most[0] + 1 if mode != 2 else pads[0]
    c.exact = True
    c.call(f'y = pad_mode x {list_text(pads)} {mode}',
           f"y = F.pad(x, {tuple(pads)}, mode={['reflect', 'replicate', 'circular'][mode - 1]!r})")


@op('glu')
def glu(c, _):
    shape = c.shape(1, 4)
    dim = c.dim(shape)
    if -len(shape) <= dim < len(shape) and c.chance(0.95):
        shape = list(shape)
        shape[dim] *= 2
    c.tensor('x', shape, c.float_type())
    c.call(f'y = glu x {dim}', f'y = F.glu(x, {dim})')


@op('prelu')
def prelu(c, _):
    dtype = c.float_type()
    shape = c.tensor('x', c.shape(1, 4), dtype)
    channels = shape[1] if len(shape) > 1 else 1
    c.tensor('w', (c.pick(1, channels) if c.chance(0.95) else channels + 1,), c.another_type(dtype), PLAIN)
    c.smooth = False
    c.call('y = prelu x w', 'y = F.prelu(x, w)')


@op('linspace')
def linspace(c, _):
    dtype = c.pick(*FLOATS)
    start, end, steps = c.pick(0, -1, 2.5, 3), c.pick(1, 10, -4, 3), c.int(0, 20) if c.chance(0.95) else -1
    c.by_norm = ('results',)
    c.call(f'y = linspace {dtype} {start} {end} {steps}', f'y = torch.linspace({start}, {end}, {steps}, dtype={dtype})')


EQUATIONS = ('ij,jk->ik ij,kj->ik bij,bjk->bik ij->ji ii->i ii-> i,j->ij i,i-> ij,ij->ij ij,j bhid,bhjd->bhij ...ij,...jk->...ik '
             'i...->... ...->... bi,oi,bi->bo abc,cd,de->abe ij,jk,kl->il ijk->kj iji->j a,ab,abc->c b...,b...->... ij,kl->').split()


@op('einsum')
def einsum(c, _):
    equation, dtype = c.pick(*EQUATIONS), c.pick('f32', 'f64')
    sizes = {}
    names = []
    for name, labels in zip('xyz', equation.split('->')[0].split(',')):
        shape = []
        batch = c.pick((), (2,), (3, 2)) if '...' in labels else ()
        for label in labels.replace('...', '.'):
            if label == '.':
                shape += batch if equation.count('...') < 3 or not names else sizes['...']
                sizes.setdefault('...', batch)
            else:
                shape.append(sizes.setdefault(label, c.pick(0, 1, 2, 3, 4, 5, 7)))
        c.tensor(name, c.mutated(shape), c.another_type(dtype), PLAIN)
        names.append(name)
    c.by_norm = ('results', 'grads')
    c.call(f"y = einsum {equation} [{','.join(names)}]", f"y = torch.einsum('{equation}', {', '.join(names)})")
