#!/usr/bin/python3
"""Compares writes in place with torch: write_parity.py PROGRAM [N [FIRST]].

Makes up N small programs (seeds FIRST, FIRST + 1, ...) over a few tensors: views of views, writes into all of them with
gradients on and off, other operations, backward in between. Both sides must refuse the same instructions; values, gradients
and which tensors require one must agree. `write_parity.py PROGRAM 1 SEED` prints the program of a seed.
"""
import io
import random
import subprocess
import sys

import torch

import wire

N_REGISTERS = 16
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}
DTYPES = {torch.float32: 0, torch.float64: 1}
TOO_LARGE = 1e3
CHUNK = 200  # programs for one call of det's side

# A result that was merged into the next operation is lost to us when a parameter that it was made from is overwritten.
MERGED = 'merged into the next operation'


class Stop(Exception):
    """There is nothing more to compare in this program."""


class Register:
    def __init__(self, t, no_grad_view=False, history=0):
        self.t, self.no_grad_view, self.history = t, no_grad_view, history
        self.is_leaf = False  # one that requires a gradient


def storage_of(t):
    return t.storage().data_ptr()


def overlaps_itself(t):
    return any(size > 1 and stride == 0 for size, stride in zip(t.shape, t.stride()))


class Torch:
    """Runs instructions with torch. Where it differs on purpose from det, the comments say how."""

    def __init__(self):
        self.r = [None] * N_REGISTERS
        self.histories = {}  # storage: number of writes with gradients into it
        self.alive = []

    # torch takes a view of something that requires a gradient for a leaf if it was made while gradients were off, and
    # collects a gradient on it. For us it is a constant.
    def is_constant_view(self, i):
        reg = self.r[i]
        return reg.no_grad_view and reg.t._base is not None and reg.t._base.requires_grad

    def is_constant(self, i):
        reg = self.r[i]
        return torch.is_grad_enabled() and self.is_constant_view(i) and reg.history == self.histories.get(storage_of(reg.t), 0)

    def read(self, i):
        return self.r[i].t.detach() if self.is_constant(i) else self.r[i].t

    def view(self, d, s, function):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_constant(s)):
            t = function(self.r[s].t)
        self.set(d, t, s)

    # torch takes a view for a leaf if its base has got its gradient by a write and nobody has looked at the view since.
    def target(self, i):
        if torch.is_grad_enabled():
            self.r[i].t.grad_fn
        return self.r[i].t

    def set(self, i, t, view_of=None):
        self.alive.append(t)  # no storage's address is used twice
        no_grad = view_of is not None and (not torch.is_grad_enabled() or self.r[view_of].no_grad_view) and t._base is not None
        self.r[i] = Register(t, no_grad, self.histories.get(storage_of(t), 0))

    # torch refuses some sources that share memory with the target and computes something for others; we read first.
    def source(self, to, i):
        t = self.read(i)
        same = t.data_ptr() == to.data_ptr() and t.shape == to.shape and t.stride() == to.stride()
        return t.clone() if storage_of(t) == storage_of(to) and not same else t

    def wrote(self, i):
        t = self.r[i].t
        if torch.is_grad_enabled() and t.requires_grad:
            self.histories[storage_of(t)] = self.histories.get(storage_of(t), 0) + 1

    def run(self, name, args):
        getattr(self, 'run_' + name)(*args)

    def run_leaf(self, d, data):
        self.set(d, data.clone().requires_grad_())
        self.r[d].is_leaf = True

    def run_plain(self, d, data):
        self.set(d, data.clone())

    def run_slice(self, d, s, dim, start, end, step):
        index = [slice(None)] * self.r[s].t.dim()
        index[dim] = slice(start, end, step)
        self.view(d, s, lambda t: t[tuple(index)])

    def run_select(self, d, s, dim, index):
        self.view(d, s, lambda t: t.select(dim, index))

    def run_transpose(self, d, s, a, b):
        self.view(d, s, lambda t: t.transpose(a, b))

    def run_expand(self, d, s, *shape):
        self.view(d, s, lambda t: t.expand(shape))

    def run_reshape(self, d, s, *shape):
        self.view(d, s, lambda t: t.reshape(shape))

    # torch refuses to write into what split gives; our pieces are slices.
    def run_split(self, d, s, size, dim, piece):
        at = piece * size
        self.view(d, s, lambda t: t.narrow(dim, at, min(size, t.shape[dim] - at)))

    def run_detach(self, d, s):
        self.set(d, self.r[s].t.detach())

    def run_fill(self, r, value):
        self.target(r).fill_(value)
        self.wrote(r)

    def run_write(self, r, data):
        self.target(r).copy_(data)
        self.wrote(r)

    def run_copy(self, r, s):
        to = self.target(r)
        to.copy_(self.source(to, s))
        self.wrote(r)

    def run_add_(self, r, s, alpha):
        to = self.target(r)
        to.add_(self.source(to, s), alpha=alpha)
        self.wrote(r)

    def run_mul_(self, r, factor):
        self.target(r).mul_(factor)
        self.wrote(r)

    def run_scale(self, d, s, factor):
        self.set(d, self.read(s) * factor)

    def run_to(self, d, s, dtype):
        t = self.read(s)
        same = t.dtype == list(DTYPES)[dtype]
        if same:
            self.r[d] = self.r[s]
        else:
            self.set(d, t.to(list(DTYPES)[dtype]))

    def run_grad(self, on):
        torch.set_grad_enabled(bool(on))

    def run_backward(self, r):
        self.read(r).sum().backward(retain_graph=True)


def unary(name):
    return lambda self, d, a: self.set(d, getattr(torch, name)(self.read(a)))


def binary(function):
    return lambda self, d, a, b: self.set(d, function(self.read(a), self.read(b)))


UNARY = ['sin', 'tanh', 'exp', 'relu', 'clone']
BINARY = {'add': torch.add, 'mul': torch.mul, 'div': torch.div, 'matmul': torch.matmul, 'linear': torch.nn.functional.linear}
for name in UNARY:
    setattr(Torch, 'run_' + name, unary(name))
for name, function in BINARY.items():
    setattr(Torch, 'run_' + name, binary(function))


class Maker:
    """Makes up a program, running it with torch at the same time."""

    def __init__(self, seed):
        self.seed, self.rng = seed, random.Random(seed)
        self.torch = Torch()
        self.program, self.refused = [], []  # instructions; why torch refused them, or ''
        self.dtype = self.rng.choice(list(DTYPES))

    def full(self):
        return [i for i, reg in enumerate(self.torch.r) if reg is not None]

    def target(self):
        empty = [i for i, reg in enumerate(self.torch.r) if reg is None]
        return empty[0] if empty else self.rng.choice([i for i in self.full() if not self.torch.r[i].is_leaf] or self.full())

    def source(self):
        return self.rng.choice(self.full())

    def data(self, shape):
        # odd multiples of 1/16: no zeros, where relu's slope is a matter of taste
        generator = torch.Generator().manual_seed(self.rng.randrange(1 << 30))
        return (2 * torch.randint(-16, 16, shape, generator=generator) + 1).to(self.dtype) / 16

    def shape(self):
        return [self.rng.choice([1, 2, 3, 4]) for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3]))]

    def do(self, name, *args):
        why = ''
        try:
            self.torch.run(name, args)
        except RuntimeError as e:
            why = str(e).split('\n')[0] or 'refused'
        self.program.append([name, *args])
        self.refused.append(why)
        if name == 'backward' and why:
            raise Stop
        for i in self.full():
            t = self.torch.r[i].t.detach()
            if t.numel() and not t.abs().max() < TOO_LARGE:
                raise Stop

    # --- instructions

    def new(self):
        self.do(self.rng.choice(['leaf', 'plain', 'plain']), self.target(), self.data(self.shape()))

    def view(self):
        s = self.source()
        t = self.torch.r[s].t
        kinds = ['reshape', 'expand', 'detach']
        if t.dim():
            kinds += ['slice', 'slice', 'select', 'select', 'transpose', 'split']
        kind, d = self.rng.choice(kinds), self.target()
        dim = self.rng.randrange(t.dim()) if t.dim() else 0
        size = t.shape[dim] if t.dim() else 1
        if kind == 'slice':
            start = self.rng.randrange(size)
            self.do(kind, d, s, dim, start, self.rng.randrange(start + 1, size + 1), self.rng.choice([1, 1, 2]))
        elif kind == 'select':
            self.do(kind, d, s, dim, self.rng.randrange(size))
        elif kind == 'split':
            part = self.rng.randrange(1, size + 1)
            self.do(kind, d, s, part, dim, self.rng.randrange((size + part - 1) // part))
        elif kind == 'transpose':
            self.do(kind, d, s, dim, self.rng.randrange(t.dim()))
        elif kind == 'expand' and t.dim() < 4:
            shape = [n if n > 1 else self.rng.choice([1, 2, 3]) for n in t.shape]
            self.do(kind, d, s, *([self.rng.choice([1, 2])] * self.rng.randrange(2) + shape))
        elif kind == 'reshape' and t.dim() < 4:
            self.do(kind, d, s, *self.rng.choice([[t.numel()], [1] + list(t.shape), list(t.shape) + [1], list(reversed(t.shape))]))
        elif kind == 'detach':
            self.do(kind, d, s)

    def fitting(self, shape):
        """A register that broadcasts to shape, made if there is none."""
        def fits(t):
            return t.dim() <= len(shape) and all(a in (1, b) for a, b in zip(reversed(t.shape), reversed(shape)))
        found = [i for i in self.full() if fits(self.torch.r[i].t)]
        if found and self.rng.random() < 0.9:
            return self.rng.choice(found)
        d = self.target()
        self.do(self.rng.choice(['leaf', 'plain']), d, self.data([n if self.rng.random() < 0.8 else 1 for n in shape]))
        return d

    def write(self):
        r = self.source()
        if self.rng.random() < 0.02:  # of any shape: mostly refused
            self.do('copy', r, self.source())
            return
        kind = self.rng.choice(['fill', 'write', 'copy', 'copy', 'copy', 'add_', 'add_', 'mul_'])
        s = self.fitting(list(self.torch.r[r].t.shape)) if kind in ('copy', 'add_') else 0
        t = self.torch.r[r].t
        if kind == 'fill':
            # torch notices only in backward that it cannot differentiate this; we can
            if not (overlaps_itself(t) and t.requires_grad and torch.is_grad_enabled()):
                self.do(kind, r, self.rng.choice([-0.5, 0.25, 0.5]))
        elif kind == 'write':
            self.do(kind, r, self.data(list(t.shape)).to(t.dtype))
        elif kind == 'copy':
            if not (r == s and overlaps_itself(t)):  # as for fill
                self.do(kind, r, s)
        elif kind == 'add_':
            self.do(kind, r, s, self.rng.choice([1.0, 1.0, -0.5, 2.0]))
        else:
            self.do(kind, r, self.rng.choice([0.5, -1.0, 1.5]))

    def compute(self):
        a, d = self.source(), self.target()
        t = self.torch.r[a].t
        kind = self.rng.choice(UNARY + ['relu', 'scale', 'scale', 'add', 'add', 'mul', 'mul', 'div', 'matmul', 'linear', 'linear', 'to'])
        if kind == 'scale':
            self.do(kind, d, a, self.rng.choice([0.5, -1.0, 2.0]))
        elif kind == 'to':
            self.do(kind, d, a, self.rng.randrange(2))
        elif kind in ('add', 'mul', 'div'):
            b = self.fitting(list(t.shape))
            divisor = self.torch.r[b].t.detach()
            # of two types: torch keeps the operand for backward, we keep what it was converted to
            if kind != 'add' and divisor.dtype != t.dtype or kind == 'div' and divisor.abs().min() < 0.05:
                return
            self.do(kind, self.target(), a, b)
        elif kind == 'matmul' and t.dim() == 2:
            self.do(kind, self.target(), a, self.matrix(t.shape[1], 2))
        elif kind == 'linear' and t.dim() in (1, 2):
            w = self.matrix(3, t.shape[-1])
            h = self.target()
            self.do(kind, h, a, w)
            if self.torch.r[h] and self.rng.random() < 0.5:
                self.do('relu', self.target(), h)
        elif kind in UNARY:
            self.do(kind, d, a)

    def matrix(self, rows, columns):
        found = [i for i in self.full() if list(self.torch.r[i].t.shape) == [rows, columns]]
        if found and self.rng.random() < 0.7:
            return self.rng.choice(found)
        d = self.target()
        self.do(self.rng.choice(['leaf', 'plain']), d, self.data([rows, columns]))
        return d

    def switch(self):
        self.do('grad', 0 if torch.is_grad_enabled() else 1)

    def backward(self):
        wanted = [i for i in self.full() if self.torch.r[i].t.requires_grad]
        self.do('backward', self.rng.choice(wanted) if wanted and self.rng.random() < 0.95 else self.source())

    def make(self):
        steps = [(self.new, 1), (self.view, 5), (self.write, 7), (self.compute, 4), (self.backward, 0.7), (self.switch, 0.4)]
        torch.set_grad_enabled(True)
        try:
            for _ in range(2):
                self.new()
            for _ in range(self.rng.randrange(4, 30)):
                if not torch.is_grad_enabled() and self.rng.random() < 0.4:
                    self.switch()
                self.rng.choices([f for f, _ in steps], [w for _, w in steps])[0]()
            if not torch.is_grad_enabled():
                self.switch()
            for _ in range(2):
                self.backward()
        except Stop:
            pass
        torch.set_grad_enabled(True)
        return self


def differ(ours, theirs, tolerance):
    if ours is None or theirs is None:
        return None if ours is theirs else f'{"missing" if ours is None else "there"}, not so with torch'
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f'{tuple(ours.shape)} {ours.dtype}, torch has {tuple(theirs.shape)} {theirs.dtype}'
    if not ours.numel():
        return None
    difference = torch.where(ours == theirs, 0, (ours - theirs).abs()).max().item()
    scale = 1 + theirs.abs().max().item()
    return None if difference <= tolerance * scale else f'differ by {difference:.3g}'


class Result:
    def __init__(self):
        self.refusals = self.merged = self.backwards = 0


def compare(maker, answer, result):
    """None or what is wrong."""
    for instruction, theirs, ours in zip(maker.program, maker.refused, answer['outcomes']):
        if MERGED in ours:
            result.merged += 1
            return None
        if bool(ours) != bool(theirs):
            return f'{instruction[0]}: {"refused: " + ours if ours else "not refused"}; torch: {theirs or "fine"}'
        result.refusals += bool(ours)
        result.backwards += instruction[0] == 'backward' and not ours
        if instruction[0] == 'backward' and ours:
            return None  # gradients may have arrived at some leaves
    tolerance = max(TOLERANCE[reg.t.dtype] for reg in maker.torch.r if reg)
    for i, reg in enumerate(maker.torch.r):
        if reg is None:
            continue
        value = answer['values'][i]
        if isinstance(value, str):
            if MERGED not in value:
                return f'register {i}: {value}'
            result.merged += 1
            continue
        wrong = differ(value, reg.t.detach(), tolerance)
        if wrong:
            return f'register {i}: values {wrong}'
        if not maker.torch.is_constant_view(i):
            if answer['requires_grad'][i] != reg.t.requires_grad:
                return f'register {i}: requires_grad is {answer["requires_grad"][i]}'
            wrong = differ(answer['grads'][i], reg.t.grad if reg.is_leaf else None, tolerance)
            if wrong:
                return f'register {i}: gradients {wrong}'
    return None


def show(maker, answer):
    for instruction, theirs, ours in zip(maker.program, maker.refused, answer['outcomes']):
        words = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in instruction]
        print(' ', *words, *([f'   refused: {ours} | torch: {theirs}'] if ours or theirs else []))


def answers(program, makers):
    """Runs the programs of all makers with one call of det's side."""
    sent = io.BytesIO()
    for maker in makers:
        wire.write(sent, maker.program)
    done = subprocess.run(program, input=sent.getvalue(), stdout=subprocess.PIPE)
    received = io.BytesIO(done.stdout)
    for maker in makers:
        try:
            yield wire.read(received)
        except (EOFError, ValueError):
            sys.exit(f'{program} ended with status {done.returncode} in program {maker.seed}')
    if done.returncode:
        sys.exit(f'{program} ended with status {done.returncode}')


def main():
    program = sys.argv[1]
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    bad, result = 0, Result()
    for start in range(first, first + n, CHUNK):
        makers = [Maker(seed).make() for seed in range(start, min(start + CHUNK, first + n))]
        for maker, answer in zip(makers, answers(program, makers)):
            wrong = compare(maker, answer, result)
            if wrong or n == 1:
                print(f'program {maker.seed}: {wrong}')
                show(maker, answer)
                bad += bool(wrong)
    print(f'{n} programs compared with torch: {result.backwards} backwards, {result.refusals} instructions refused by both, '
          f'{result.merged} with a merged result that was lost, {bad} complaints')
    sys.exit(bool(bad))


torch.set_num_threads(1)
main()
