"""One random case: which tensors there are, how they lie in memory, what is called on both sides.

Everything is a function of (seed, number of the case), so one number is enough to see a case again.
"""
import random

import numpy as np
import torch

FLOATS = ('f32', 'f64', 'bf16')
INTS = ('i64', 'i32', 'u8', 'bool')
TYPES = FLOATS + INTS
STORED = ('f16', 'i16', 'i8')  # can be moved and converted, nothing else
NUMPY = {'f32': np.float32, 'f64': np.float64, 'bf16': np.float32, 'i64': np.int64, 'i32': np.int32, 'u8': np.uint8,
         'bool': np.bool_, 'f16': np.float16, 'i16': np.int16, 'i8': np.int8}
TORCH = {'f32': torch.float32, 'f64': torch.float64, 'bf16': torch.bfloat16, 'i64': torch.int64, 'i32': torch.int32,
         'u8': torch.uint8, 'bool': torch.bool, 'f16': torch.float16, 'i16': torch.int16, 'i8': torch.int8}
NAME = {dtype: name for name, dtype in TORCH.items()}

SIZES = (0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17)
LONG_SIZES = (31, 32, 33, 64, 70, 100, 127, 130, 257, 300, 1000, 2100)
MAX_ELEMENTS, MAX_LONG = 1500, 40000
LAYOUTS = ('dense', 'permuted', 'stepped', 'expanded', 'inner_one', 'offset', 'selected', 'mixed')
VALUES = ('normal',) * 5 + ('ties',) * 2 + ('zeros', 'nan', 'inf', 'huge', 'tiny', 'wide', 'border', 'mixed')
PLAIN = ('normal', 'normal', 'normal', 'ties', 'wide')  # for what a NaN anywhere would drown
BORDERS = (0, -0.0, 0.5, 1, 1.5, 2.5, 3, 6, 20, 20.5, 30, 87, 88.8, 104, 710, 746, 1e-8, 1e-4, 3.5, 100, 1e5, 1e7)
INT_LIMITS = {'i64': (-2**63, 2**63 - 1), 'i32': (-2**31, 2**31 - 1), 'u8': (0, 255), 'i16': (-2**15, 2**15 - 1), 'i8': (-128, 127)}


def to_bf16(a):
    """Rounds f32 to bf16, as f32."""
    return torch.from_numpy(np.ascontiguousarray(a)).bfloat16().float().numpy().reshape(a.shape)


def bf16_bytes(a):
    """Memory of bf16 numbers that are given as f32."""
    return (np.ravel(a).view(np.uint32) >> 16).astype(np.uint16).tobytes()


def float_values(rng, kind, shape):
    normal = rng.standard_normal(shape)
    if kind == 'ties':
        return rng.integers(-3, 4, shape).astype(np.float64)
    if kind == 'zeros':
        return rng.choice([0.0, -0.0, 1.0, -1.0, 0.5], shape)
    if kind == 'nan':
        return np.where(rng.random(shape) < 0.15, np.nan, normal)
    if kind == 'inf':
        u = rng.random(shape)
        return np.where(u < 0.1, np.inf, np.where(u < 0.2, -np.inf, normal))
    if kind == 'huge':
        return normal * 1e30
    if kind == 'tiny':
        return normal * rng.choice([1e-30, 1e-20, 1e-40], shape)
    if kind == 'wide':
        return np.sign(normal) * 10 ** (8 * rng.random(shape) - 4)
    if kind == 'border':
        return rng.choice(BORDERS, shape) * rng.choice([1.0, -1.0], shape)
    if kind == 'mixed':
        parts = np.stack([float_values(rng, k, shape) for k in ('normal', 'zeros', 'nan', 'inf', 'huge', 'tiny')])
        return np.take_along_axis(parts, rng.integers(0, len(parts), (1, *shape)), 0)[0]
    if kind == 'unit':
        return rng.random(shape)
    if kind == 'unit_border':
        return np.where(rng.random(shape) < 0.3, rng.choice([0.0, 1.0, 0.5, 1e-20, 1e-45], shape), rng.random(shape))
    if kind == 'positive':
        return 0.1 + 2 * rng.random(shape)
    if kind == 'sign':
        return rng.choice([1.0, -1.0], shape)
    assert kind == 'normal', kind
    return normal


def int_values(rng, dtype, kind, shape):
    if dtype == 'bool':
        return rng.random(shape) < 0.5
    low, high = INT_LIMITS[dtype]
    if kind == 'wide':
        return rng.integers(max(low, -1000), min(high, 1000), shape, endpoint=True).astype(NUMPY[dtype])
    if kind == 'limits':
        return np.where(rng.random(shape) < 0.3, rng.choice([low, high, low + 1, high - 1], shape),
                        rng.integers(max(low, -3), 3, shape)).astype(NUMPY[dtype])
    return rng.integers(max(low, -3), 3, shape, endpoint=True).astype(NUMPY[dtype])


class Input:
    """A tensor that is given: its memory (base), the views that lead to it, and what wants a gradient."""

    def __init__(self, name, dtype, base, views, leaf, offset):
        self.name, self.dtype, self.base, self.views = name, dtype, base, views
        self.leaf = leaf          # 'none', 'view' or 'base': whose gradient is asked for
        self.offset = offset      # elements between the start of the memory and the base; None: det_from copies

    @property
    def stages(self):
        """Names of the base and of each view; the last is the input's."""
        return [f'{self.name}{i}' for i in range(len(self.views))] + [self.name]

    @property
    def leaf_name(self):
        return {'none': None, 'view': self.name, 'base': self.stages[0]}[self.leaf]

    def raw(self):
        if self.dtype == 'bf16':
            return bf16_bytes(self.base)
        return np.ascontiguousarray(self.base).tobytes()

    def tensor(self):
        """The base in torch, fresh."""
        return torch.from_numpy(self.base.copy()).to(TORCH[self.dtype])


class Case:
    def __init__(self, number, seed, op):
        self.number, self.seed, self.op = number, seed, op
        self.random = random.Random(f'{seed}/{number}/{op}')
        self.numpy = np.random.Generator(np.random.PCG64(self.random.getrandbits(64)))
        self.inputs, self.det, self.torch = [], [], []
        self.results = []            # names that both sides must agree on
        self.exact = False           # results are equal, not only near
        self.signed_zeros = False    # 0 is not -0
        self.smooth = True           # the gradient is continuous in the inputs
        self.by_norm = ()            # 'results', 'grads': near relative to the largest number of the array
        self.scaled = False          # gradients: their digits are those of the largest input, too
        self.sums_only = False       # a convolution: nothing but sums of products
        self.shapes_only = False     # the content is random or undefined
        self.undefined = False       # torch computes something here that C++ leaves undefined: no values compared
        self.free_choice = None      # (indices, input, dim): any choice among equal elements is right
        self.drops_dim = False       # with free_choice: dim is not in the result
        self.strides_matter = False  # torch may refuse because of strides
        self.stood_in = False        # torch gets other inputs: see op_stand_in.py
        self.undecided = False       # rounding decides which unit or pixel gets the gradient
        self.torch_env = {}          # further names for the torch side
        self.long = self.chance(0.06)
        self.tags = set()            # what is special about this case, for the list of accepted differences

    def writes_into(self, given):
        """Whether the call changes the memory behind an input: it must not get a copy."""
        return given.stages[0] in self.results

    # --- elementary draws

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *choices):
        return self.random.choice(choices)

    def int(self, low, high):
        return self.random.randint(low, high)

    def size(self, low=0):
        return max(low, self.random.choice(SIZES))

    def shape(self, low=0, high=4, least=0):
        """low to high dims; sizes from least on; 0 is rare, 1 is frequent."""
        dims = [self.size(least) for _ in range(self.int(low, high))]
        if self.long and dims:
            dims[self.int(0, len(dims) - 1)] = self.pick(*LONG_SIZES)
        limit = MAX_LONG if self.long else MAX_ELEMENTS
        while np.prod(dims, dtype=np.int64) > limit:
            i = int(np.argmax(dims))
            dims[i] = max(least, 1, dims[i] // 3)
        return tuple(dims)

    def dim(self, shape, extra=0):
        """A dim of shape, from the front or from the back; rarely one that is not there."""
        n = max(len(shape) + extra, 1)
        if self.chance(0.02):
            return self.pick(n, -n - 1, n + 3)
        return self.int(-n, n - 1)

    def dims(self, shape):
        """Some dims of shape, each once (rarely twice)."""
        n = len(shape)
        some = self.random.sample(range(n), self.int(1, n)) if n else []
        some = [d - n if self.chance(0.4) else d for d in some]
        if some and self.chance(0.02):
            some.append(some[0])
        if not some and self.chance(0.5):
            some = [self.pick(0, -1)]
        return some

    def float_type(self):
        """For operations on floats: one of them, rarely another type."""
        return self.pick(*FLOATS) if self.chance(0.94) else self.pick(*INTS)

    def any_type(self):
        return self.pick(*TYPES)

    def moved_type(self):
        """For what only moves elements."""
        return self.pick(*TYPES, *STORED)

    def another_type(self, dtype):
        """Mostly the same, for a second argument."""
        return dtype if self.chance(0.98) else self.any_type()

    def broadcast(self, shape):
        """A shape that broadcasts to shape; rarely one that does not."""
        part = list(shape[self.int(0, len(shape)) if self.chance(0.3) else 0:])
        for i in range(len(part)):
            if self.chance(0.25):
                part[i] = 1
        if part and self.chance(0.02):
            part[self.int(0, len(part) - 1)] += 1
        return tuple(part)

    def mutated(self, shape):
        """The shape, rarely spoiled."""
        if self.chance(0.97):
            return tuple(shape)
        shape = list(shape)
        if shape and self.chance(0.5):
            shape[self.int(0, len(shape) - 1)] += 1
        elif shape and self.chance(0.5):
            shape.pop()
        else:
            shape.append(self.pick(1, 2))
        return tuple(shape)

    # --- memory

    def views(self, shape, layout):
        """Shape of the base and the views that lead from it to shape."""
        n = len(shape)
        if layout == 'mixed':
            middle, last_views = self.views(shape, self.pick(*LAYOUTS[1:-1]))
            base, first_views = self.views(middle, self.pick(*LAYOUTS[1:-1]))
            return base, first_views + last_views
        if layout == 'selected':
            at, extra = self.int(0, n), self.int(1, 3)
            return shape[:at] + (extra,) + shape[at:], [('select', at, self.int(-extra, extra - 1))]
        if layout == 'offset':
            count, before = int(np.prod(shape, dtype=np.int64)), self.int(1, 9)
            return (before + count + self.int(0, 3),), [('slice', 0, before, before + count, 1), ('view', shape)]
        if not n or layout == 'dense':
            return shape, []
        if layout == 'permuted':
            return self.permuted(shape, self.random.sample(range(n), n))
        if layout == 'expanded':
            free = [d for d in range(n) if shape[d] > 0]
            chosen = self.random.sample(free, self.int(1, min(2, len(free)))) if free else []
            base = tuple(1 if d in chosen else s for d, s in enumerate(shape))
            return base[self.leading_ones(base, chosen):], [('expand', shape)]
        if layout == 'inner_one':
            ones = [d for d in range(n) if shape[d] == 1]
            d = self.pick(*ones) if ones else self.int(0, n - 1)
            base = list(shape)
            extra = self.int(1, 3)
            base[d] += extra
            start = self.int(0, extra)
            return tuple(base), [('slice', d, start, start + shape[d], 1)]
        return self.stepped(shape)

    def leading_ones(self, base, chosen):
        """How many leading dims of the base an expand may add by itself."""
        k = 0
        while k in chosen and self.chance(0.5):
            k += 1
        return k

    def permuted(self, shape, order):
        base = [0] * len(shape)
        for d, o in enumerate(order):
            base[o] = shape[d]
        return tuple(base), [('permute', tuple(order))]

    def stepped(self, shape):
        base, views = list(shape), []
        for d in self.random.sample(range(len(shape)), self.int(1, min(2, len(shape)))):
            step, start = self.int(1, 3), self.int(0, 2)
            end = start + max(0, (shape[d] - 1) * step + 1) if shape[d] else start
            base[d] = end + self.int(0, 2)
            views.append(('slice', d, start, end, step))
        return tuple(base), views

    def content(self, dtype, shape, kinds):
        kind = self.pick(*kinds)
        if dtype in INTS + STORED[1:]:
            kind = self.pick('small', 'small', 'wide', 'limits') if kinds is VALUES else 'small'
            self.tags.add(f'ints_{kind}')
            return np.asarray(int_values(self.numpy, dtype, kind, shape))
        self.tags.add(kind)
        with np.errstate(over='ignore'):
            values = np.asarray(float_values(self.numpy, kind, shape)).astype(NUMPY[dtype])
        return to_bf16(values) if dtype == 'bf16' else values

    def tensor(self, name, shape, dtype, kinds=VALUES, grad=0.85, values=None, layouts=LAYOUTS):
        """Gives both sides a tensor `name` of that shape and type behind some layout."""
        shape = tuple(shape)
        base, views = self.views(shape, self.pick(*layouts))
        if len(base) > 8:
            base, views = shape, []
        if values is None:
            values = self.content(dtype, base, kinds)
        else:
            values = np.asarray(values(base)).astype(NUMPY[dtype])
        leaf = 'none'
        if dtype in FLOATS and self.chance(grad):
            leaf = self.pick('view', 'base') if views else 'view'
        offset = self.int(0, 9) if self.chance(0.3) else None
        self.inputs.append(Input(name, dtype, values, views, leaf, offset))
        return shape

    def indices(self, name, shape, below, dtype='i64', spoil=0.02):
        """Integers 0 .. below - 1; rarely one that is out of range."""
        def values(base):
            v = self.numpy.integers(0, max(below, 1), base)
            if v.size and self.chance(spoil):
                v.flat[self.int(0, v.size - 1)] = self.pick(below, -1, below + 5)
            return v
        return self.tensor(name, shape, dtype, grad=0, values=values)

    # --- calls

    def moves(self):
        """The call only moves numbers."""
        self.exact = self.signed_zeros = True

    def call(self, det, torch_text, *results):
        """The same call on both sides. det is a statement of op_calls.h, torch_text one of Python."""
        self.det.append(det)
        self.torch.append(torch_text)
        self.results = list(results) or ['y']


def list_text(numbers):
    return '[' + ','.join(str(n) for n in numbers) + ']'


def torch_view(target, source, view):
    name, *args = view
    if name == 'slice':
        dim, start, end, step = args
        return f"{target} = {source}[{':, ' * dim}{start}:{end}:{step}]"
    return f'{target} = {source}.{name}({", ".join(str(a) for a in args)})'
