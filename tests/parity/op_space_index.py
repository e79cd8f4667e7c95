"""Entries of op_space.py for what picks elements: by index, by mask, by order; running products; bags."""
import torch

from op_draw import PLAIN
from op_space import TIED, flag, index_type, op
from op_space_nn import UNREPEATED


@op('kthvalue')
def kthvalue(c, _):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, keepdim = c.dim(shape), c.chance(0.5)
    n = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    k = c.int(1, max(n, 1)) if c.chance(0.95) else c.pick(0, n + 1)
    c.exact, c.smooth, c.free_choice, c.drops_dim = True, False, ('i', 'x', dim), bool(shape) and not keepdim
    c.call(f'y i = kthvalue x {k} {dim} {flag(keepdim)}', f'y, i = x.kthvalue({k}, {dim}, keepdim={keepdim})', 'y', 'i')


@op('median_along')
def median_along(c, _):
    shape = c.tensor('x', c.shape(), c.any_type(), TIED)
    dim, keepdim = c.dim(shape), c.chance(0.5)
    c.exact, c.smooth, c.free_choice, c.drops_dim = True, False, ('i', 'x', dim), bool(shape) and not keepdim
    c.call(f'y i = median_along x {dim} {flag(keepdim)}', f'y, i = x.median({dim}, keepdim={keepdim})', 'y', 'i')


@op('median')
def median(c, _):
    c.tensor('x', c.shape(1, 4, 1), c.any_type(), ('normal', 'normal', 'nan', 'inf', 'wide'), layouts=UNREPEATED)
    c.exact, c.smooth = True, False
    c.call('y = median x', 'y = x.median()')


@op('cumprod')
def cumprod(c, _):
    shape = c.tensor('x', c.shape(), c.any_type(), PLAIN + ('zeros', 'nan', 'tiny', 'border'))
    dim = c.dim(shape)
    c.call(f'y = cumprod x {dim}', f'y = x.cumprod({dim})')


@op('any', 'all')
def any_all(c, name):
    c.tensor('x', c.shape(), c.any_type())
    c.exact = True
    c.call(f'y = {name} x', f'y = x.{name}()')


@op('any_over', 'all_over')
def any_all_over(c, name):
    """torch looks along one dim at a time."""
    shape = c.tensor('x', c.shape(1, 4), c.any_type())
    dims, keepdim, n = c.dims(shape), c.chance(0.5), len(shape)
    c.exact = True
    good = dims and len({d % n for d in dims}) == len(dims) and all(-n <= d < n for d in dims)
    text = 'y = x' + ''.join(f".{name[:3]}({d}, keepdim={keepdim})" for d in sorted((d % n for d in dims), reverse=True))
    c.call(f"y = {name} x [{','.join(map(str, dims))}] {flag(keepdim)}", text if good else "raise ValueError('dims')")


@op('unique')
def unique(c, _):
    c.tensor('x', c.shape(), c.any_type(), ('ties', 'ties', 'zeros', 'normal', 'inf'), grad=0)
    c.exact = True
    c.call('y i n = unique x', 'y, i, n = x.unique(return_inverse=True, return_counts=True)', 'y', 'i', 'n')


@op('nonzero')
def nonzero(c, _):
    c.tensor('x', c.shape(), c.any_type(), ('zeros', 'zeros', 'ties', 'nan'), grad=0)
    c.exact = True
    c.call('y = nonzero x', 'y = x.nonzero()')


@op('masked_select')
def masked_select(c, _):
    shape = c.shape()
    c.tensor('x', c.broadcast(shape) if c.chance(0.3) else shape, c.any_type())
    c.tensor('m', c.broadcast(shape) if c.chance(0.5) else shape, 'bool' if c.chance(0.97) else c.any_type(), grad=0)
    c.moves()
    c.call('y = masked_select x m', 'y = x.masked_select(m)')


def draw_index(c, shape):
    """Tensors of indices, masks and whole dims for the first dims of shape; their names on both sides."""
    names, dim = [], 0
    common = c.shape(1, 2) if all(shape) else (0,)  # Python makes a number of a tensor without dims
    for name in 'ijkl'[:c.int(1, 3)]:
        if dim >= len(shape) and not c.chance(0.05):
            break
        if c.chance(0.15) and dim < len(shape):
            names.append(None)
            dim += 1
            continue
        if c.chance(0.2) and dim < len(shape):
            width = c.int(1, len(shape) - dim)
            mask = shape[dim:dim + width]
            c.tensor(name, mask, 'bool', ('zeros',), grad=0)
            dim += width
        else:
            size = shape[dim] if dim < len(shape) else 1
            index = c.broadcast(common) if c.chance(0.5) and all(shape) else common
            index = index or (1,)
            def values(base, size=size):
                v = c.numpy.integers(-size if size else 0, max(size, 1), base)
                if v.size and c.chance(0.03):
                    v.flat[0] = c.pick(size, -size - 1)
                return v
            c.tensor(name, index, 'i64' if c.chance(0.95) else c.pick('i32', 'f32'), grad=0, values=values)
            dim += 1
        names.append(name)
    if not any(names):
        c.indices('i', c.shape(1, 2) if shape and shape[0] else (0,), shape[0] if shape else 1)
        names = ['i']
    return '[' + ','.join(n or '-' for n in names) + ']', ', '.join(n or ':' for n in names)


@op('index')
def index(c, _):
    shape = c.tensor('x', c.shape(1, 4), c.any_type())
    det, python = draw_index(c, shape)
    c.moves()
    c.call(f'y = index x {det}', f'y = x[{python},]')


@op('index_put')
def index_put(c, _):
    dtype = c.any_type()
    shape = c.tensor('x', c.shape(1, 3), dtype)
    det, python = draw_index(c, shape)
    accumulate = c.chance(0.6)
    # of several values for one place torch does not say which stays: without a sum all are the same
    c.tensor('v', c.pick((), (1,)) if c.chance(0.6) or not accumulate else (shape[-1],), c.another_type(dtype), PLAIN)
    if not accumulate:
        c.moves()
    c.torch_env['index_put'] = torch_index_put
    c.call(f'y = index_put x {det} v {flag(accumulate)}',
           f"y = index_put(x, ({python.replace(':', 'slice(None)')},), v, {accumulate})")


def torch_index_put(x, index, values, accumulate):
    """index_put of torch has no whole dims: here by the positions of the elements."""
    if x.dtype != values.dtype:
        raise TypeError('types')
    places = torch.arange(x.numel()).reshape(x.shape)[index]
    values = values.expand(places.shape).reshape(-1)
    return x.reshape(-1).index_put((places.reshape(-1),), values, accumulate).reshape(x.shape)


@op('multinomial')
def multinomial(c, _):
    classes = c.size(1)
    shape = c.pick((classes,), (c.size(1), classes), (c.size(1), classes), (2, 2, classes))
    c.tensor('w', shape, c.float_type(), ('positive',), grad=0)
    replacement, n = c.chance(0.5), c.int(0, classes + 1)
    c.shapes_only = True
    c.call(f'y = multinomial w {n} {flag(replacement)}', f'y = torch.multinomial(w, {n}, {replacement})')


@op('embedding_bag')
def embedding_bag(c, _):
    rows, width, dtype = c.size(1), c.size(1), c.pick('f32', 'f64')
    mode = c.int(0, 2)
    given = c.chance(0.5)
    n = c.int(0, 12)
    shape = (n,) if given else (c.int(1, 4), c.int(1, 5))
    c.indices('i', c.mutated(shape), rows, 'i64' if c.chance(0.95) else index_type(c))
    c.tensor('w', (rows, width), dtype, PLAIN, grad=1)  # torch fails if only the weights of samples want a gradient
    options, python = [f'mode={mode}'], [f"mode={['sum', 'mean', 'max'][mode]!r}"]
    if given:
        cuts = sorted(c.int(0, n) for _ in range(c.int(0, 4)))
        c.tensor('o', (len(cuts) + 1,), 'i64', grad=0, values=lambda base: [0] + cuts, layouts=('dense',))
        options.append('offsets=o')
        python.append('offsets=o')
    if mode == 0 and c.chance(0.4):
        c.tensor('s', shape, dtype, PLAIN)
        options.append('per_sample_weights=s')
        python.append('per_sample_weights=s')
    padding = c.int(0, rows - 1) if c.chance(0.3) else -1
    options.append(f'padding_idx={padding}')
    if padding >= 0:
        python.append(f'padding_idx={padding}')
    c.call(f"y = embedding_bag i w {' '.join(options)}", f"y = F.embedding_bag(i, w, {', '.join(python)})")
