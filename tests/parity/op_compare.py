"""When two results agree.

Integers, bools, and what only moves or picks numbers must be equal. Any other number must be near the
number that torch computes in f64 from the same inputs, or near the one that it computes in the same
type. Near is

    LIMIT * eps * |number|                      a few roundings of the result,
  + SPREAD * (change of torch's f64 result      what the last bits of the inputs decide: the
              when inputs move by eps)          condition of the call,
  + TORCH * (torch's own error in this type)    torch's distance from its own f64 result

element by element. The last two are the largest of SAMPLES calls whose inputs (and gradients of the
results) are moved by their last bits at random; they are computed only where the first line is not
enough. A gradient is as exact as the coarsest type that it came through. For f64 there is nothing better to compare with: there the samples are taken in f32 and scaled
down. Where the gradient jumps (kinks), inputs stay and only the gradient of the result moves.

For some operations (Case.by_norm) LIMIT * eps * the largest number of the array is added: what is computed from
rounded results (1 - y * y of tanh), in blocks (Winograd's convolutions), or step by step (recurrent layers) is
exact relative to its neighbours. For convolutions (Case.sums_only) these count without signs: terms may cancel. Where torch itself overflows on the way (its number is not finite, the one
in f64 is) there is nothing to compare with.
"""
import math
import re

import numpy as np
import torch

from op_draw import NAME, TORCH

EPS = {'f32': 2.0**-23, 'f64': 2.0**-52, 'bf16': 2.0**-8, 'f16': 2.0**-11}
LARGEST = {name: torch.finfo(TORCH[name]).max for name in EPS}
FLOOR = {'f32': 2.0**-140, 'f64': 2.0**-1066, 'bf16': 2.0**-125, 'f16': 2.0**-24}  # numbers without all of their digits
LIMIT = {'f32': 8, 'f64': 64, 'bf16': 2, 'f16': 2}  # f64 is summed in plain loops
SPREAD, TORCH_ERROR = 4, 4
SAMPLES = (3, 16, 64)  # the next number where one is not enough: of many elements a few have rare luck
LEAF = "leaf_"  # in front of the name of a leaf that the code converts


class Arrays:
    """Results and gradients of one evaluation by torch, by name; None: torch gives no gradient."""

    def __init__(self, results, grads, requires_grad):
        self.results, self.grads, self.requires_grad = results, grads, requires_grad


def run_torch(case, code, wide, grad_outs=None, noise=None, noisy_inputs=True, names=None, absolute=False):
    """Evaluates the torch side. wide: in f64. noise: a generator that moves the last bits. absolute: without signs."""
    env = {'torch': torch, 'F': torch.nn.functional, 'INF': math.inf, 'NAN': math.nan, **case.torch_env}
    for name, dtype in TORCH.items():
        env[name] = torch.float64 if wide and dtype.is_floating_point else dtype
    if noise is not None and not wide:
        env['f64'] = torch.float32
    env['move'] = lambda t: t if noise is None or not t.is_floating_point() else moved_view(t, noise, noisy_inputs)
    leaves = {}
    for given in case.inputs:
        t = given.tensor().abs() if absolute and given.dtype in EPS else given.tensor()
        if noise is not None and t.is_floating_point():
            t = moved(t, noise, noisy_inputs and (not given.views or case.writes_into(given)))
        if wide and t.is_floating_point():
            t = t.double()
        elif noise is not None and t.dtype == torch.float64:
            t = t.float()
        env[given.stages[0]] = t.requires_grad_(given.leaf == 'base')
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    try:
        exec(code, env)
        results = {name: env[name] for name in names or case.results}
        if grad_outs:
            given = [g.abs() if absolute else g if noise is None else moved(g, noise) for g in grad_outs.values()]
            targets = [results[name] for name in grad_outs]
            torch.autograd.backward(targets, [g.to(t.dtype) for g, t in zip(given, targets)])
    finally:
        torch.set_default_dtype(torch.float32)
    for given in case.inputs:
        if given.leaf_name:
            leaves[given.leaf_name] = env.get(LEAF + given.leaf_name, env[given.leaf_name]).grad
    requires = {name: t.requires_grad for name, t in results.items()}
    return Arrays({name: t.detach() for name, t in results.items()}, leaves, requires)


def moved(t, rng, move=True):
    """t with every float changed by about its last bit; f64 by the last bit that f32 has."""
    narrow = t.bfloat16() if t.dtype == torch.bfloat16 else t.float()
    if not move:
        return narrow.to(t.dtype)
    factor = 1 + EPS[NAME[narrow.dtype]] * torch.from_numpy(np.asarray(rng.standard_normal(tuple(t.shape))))
    return (t.double() * factor).to(narrow.dtype).to(t.dtype)


def moved_view(t, rng, move):
    """The same of a view, whose gradient moves as well: what it is the sum of has been rounded."""
    view = moved(t, rng, move)
    if view.requires_grad:
        view.register_hook(lambda g: moved(g, rng))
    return view


def equal(ours, theirs, signed_zeros=False):
    """Elements that are the same; NaN is NaN."""
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    if signed_zeros and ours.is_floating_point():
        same &= (ours != 0) | (torch.signbit(ours) == torch.signbit(theirs))
    return same


class Judge:
    """Compares our arrays of one case with torch's."""

    def __init__(self, case, code, same, wide, grad_outs):
        self.case, self.code, self.grad_outs = case, code, grad_outs
        self.same, self.wide = same, wide  # Arrays; same is None if torch has no kernel for the type
        self.samples = []

    def more_samples(self, count):
        """torch with moved inputs, in both precisions; with moved gradients only, where gradients jump."""
        for k in range(len(self.samples), count):
            row = {}
            for what, inputs in (('results', True), ('grads', self.case.smooth)):
                for wide in (False, True):
                    noise = np.random.Generator(np.random.PCG64([self.case.number, k]))
                    try:
                        a = run_torch(self.case, self.code, wide, self.grad_outs, noise, inputs)
                        row[what, wide] = getattr(a, what)
                    except (RuntimeError, IndexError, ValueError, TypeError):
                        row[what, wide] = {}
            self.samples.append(row)

    def slack(self, what, name, dtype, reference, count):
        """What the condition of the call and torch's own error allow, element by element."""
        self.more_samples(count)
        spread, error = torch.zeros_like(reference), torch.zeros_like(reference)
        for row in self.samples:
            wide, narrow = row[what, True].get(name), row[what, False].get(name)
            if wide is None:
                continue
            wide = wide.double()
            spread = torch.maximum(spread, (wide - reference).abs().nan_to_num(0, 0, 0))
            if narrow is not None and self.same is not None:
                error = torch.maximum(error, (narrow.double() - wide).abs().nan_to_num(0, 0, 0))
        same = getattr(self.same, what).get(name) if self.same is not None else None
        if same is not None and dtype != 'f64':
            error = torch.maximum(error, (same.double() - reference).abs().nan_to_num(0, 0, 0))
        scale = EPS['f64'] / EPS['f32'] if dtype == 'f64' else 1
        slack = scale * (SPREAD * spread + TORCH_ERROR * error)
        if what in self.case.by_norm and reference.numel():
            given = [g.abs().max().item() for g in self.grad_outs.values() if g.numel() and what == 'grads']
            if self.case.scaled and given:
                given.append(max(given) * max(largest_of(i.tensor().double()) for i in self.case.inputs))
            slack += LIMIT[dtype] * EPS[dtype] * max([largest_of(reference), largest_of(self.sizes(what, name))] + given)
        return slack

    def sizes(self, what, name):
        """The array if no term of a sum cancelled another; None if sums are not all that is computed."""
        if not self.case.sums_only:
            return None
        return getattr(run_torch(self.case, self.code, True, self.grad_outs, absolute=True), what)[name]

    def coarsest(self, what, dtype):
        """The type with the fewest digits among dtype and, for a gradient, those of the results."""
        types = [dtype] + [NAME[g.dtype] for g in self.grad_outs.values() if what == 'grads']
        return max(types, key=EPS.get)

    def floats(self, what, name, ours):
        """Complaint about our float array, or None."""
        same = getattr(self.same, what).get(name) if self.same is not None else None
        wide = getattr(self.wide, what).get(name) if self.wide is not None else None
        dtype = self.coarsest(what, NAME[ours.dtype])
        good = torch.zeros(ours.shape, dtype=torch.bool)
        if same is not None:
            good |= equal(ours, same, self.case.signed_zeros)
        if self.case.exact and same is not None and what == 'results':
            return None if good.all() else first_difference(ours, same, good)
        o = ours.double()
        if wide is not None:
            w = wide.double()
            over = w.abs() > LARGEST[dtype] * (1 - LIMIT[dtype] * EPS[dtype])
            good |= (o != o) & (w != w)
            good |= over & ((o == w.sign() * math.inf) | (o == w))
            if same is not None:
                good |= torch.isfinite(w) & ~torch.isfinite(same)
        for reference in (wide, same):
            if reference is not None:
                r = reference.double()
                good |= (o - r).abs() <= LIMIT[dtype] * EPS[dtype] * r.abs() + FLOOR[dtype]
        if good.all():
            return None
        for count in SAMPLES if wide is not None else ():
            w = wide.double()
            slack = self.slack(what, name, dtype, w, count)
            good |= (o - w).abs() <= LIMIT[dtype] * EPS[dtype] * w.abs() + slack + FLOOR[dtype]
            if good.all():
                break
        return None if good.all() else first_difference(ours, same if same is not None else wide, good, wide)


SHAKES = 16


def is_undecided(case, lines, grad_outs):
    """Whether the gradient changes when what a ReLU or a pooling window of the call decides about moves as far as it may differ."""
    at = next((i for i, line in enumerate(lines) if re.match('h0? = ', line)), None)
    if at is None or case.smooth or case.stood_in:
        return False
    name = lines[at].split(' =')[0]
    dtype = max((given.dtype for given in case.inputs if given.dtype in EPS), key=EPS.get)
    shaken = lines[:at + 1] + [f'{name} = {name} + tolerance * shake({name})'] + lines[at + 1:]
    codes = [compile('\n'.join(text), f'case {case.number}', 'exec') for text in (lines[:at + 1], shaken)]
    sizes = run_torch(case, codes[0], True, names=[name], absolute=True).results[name]
    before = run_torch(case, codes[0], True, names=[name]).results[name]
    rng = np.random.Generator(np.random.PCG64([case.number, 7]))
    case.torch_env['tolerance'] = LIMIT[dtype] * EPS[dtype] * max(largest_of(sizes), largest_of(before))
    seen = []
    for k in range(SHAKES):
        case.torch_env['shake'] = lambda t: torch.from_numpy(np.asarray(rng.uniform(-bool(k), bool(k), tuple(t.shape))))
        seen.append(run_torch(case, codes[1], True, grad_outs).grads)
    return any(not equal(seen[0][leaf], grads[leaf]).all() for grads in seen for leaf in grads if grads[leaf] is not None)


def largest_of(array):
    """The largest finite size in an array that may be None or empty."""
    finite = array[torch.isfinite(array)] if array is not None else torch.zeros(0)
    return finite.abs().max().item() if finite.numel() else 0


def first_difference(ours, theirs, good, wide=None):
    digits = 17 if ours.dtype == torch.float64 else 9
    at = tuple(int(i) for i in torch.nonzero(~good)[0]) if good.dim() else ()
    text = f'differs in {int((~good).sum())} of {good.numel()}, at {list(at)}: det {ours[at].item():.{digits}g}, torch {theirs[at].item():.{digits}g}'
    return text + (f', in f64 {wide[at].item():.{digits}g}' if wide is not None else '')
