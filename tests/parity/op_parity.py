#!/usr/bin/python3
"""Compares every public operation with torch, in random cases.

    op_parity.py PROGRAM [--cases N] [--seed S] [--op NAME]   runs N cases; tells those that differ
    op_parity.py PROGRAM --case NUMBER [--seed S]             runs one and shows it
    op_parity.py --accepted                                   prints what may differ, for docs/parity.md

Cases go round all operations (op_space.py); types, memory layouts, shapes, arguments and values are drawn for
each (op_draw.py). PROGRAM makes our calls (op_parity.c), each with one thread and with two. op_compare.py says
when two results agree. A call that both sides refuse counts as agreement. What may differ, and why, is
in op_accepted.py; anything else fails.
"""
import argparse
import collections
import re
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import op_space_images  # noqa: F401  (these register their entries)
import op_space_index  # noqa: F401
import op_space_nn  # noqa: F401
import op_space_shape  # noqa: F401
from op_accepted import ACCEPTED, markdown
from op_compare import LEAF, Judge, equal, first_difference, is_undecided, run_torch
from op_det import Program, c_text, statements_of, view_text
from op_draw import NAME, TORCH, Case, torch_view
from op_space import SPACE
from op_stand_in import stand_in_for

ROOT = Path(__file__).resolve().parents[2]
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, ZeroDivisionError, NotImplementedError)
# torch 1.13 has few loops for bf16: there its f64 is all there is to compare with.
NO_BF16 = re.compile('BFloat16|bfloat16')
# torch 1.13 refuses these strides by mistake: the same call works on a row-major copy.
STRIDE_BUGS = re.compile('view size is not compatible|grad_input must be contiguous')
ALL_SEEN = 20000  # with so many cases nearly every entry of op_accepted.py has explained something
WANTED = 0.995  # of so many cases agree, and for all others a reason is listed
# their calls need C functions: tests/unit/test_tensor_autograd.c
NOT_CALLED = {'ref', 'name', 'value_as_tensor', 'apply', 'call_input', 'call_output', 'call_saved', 'hook_fn', ''}
USED_BY_CASES = {'requires_grad', 'grad', 'backward', 'set_grad_enabled', 'from', 'borrow'}


class Outcome:
    """What came of one case.

    kind: agree; refused by det, refused by torch: only one side did it; type, shape, values, gradient: what
    differs first; unstable: the number of threads changes the result; crash.
    """

    def __init__(self, kind, text='', note=None):
        self.kind, self.text = kind, text
        self.note = note  # how it agrees, if not simply


def draw(number, seed, names):
    """Case `number`: its operation is given by the number, everything else is random."""
    case = Case(number, seed, names[number % len(names)])
    SPACE[case.op](case)
    return case


# --- the torch side

def torch_source(case, dense=False, stand_in=None):
    """The torch side. dense: of row-major copies, for what torch does only because of strides."""
    lines = []
    for given in case.inputs:
        lines += [torch_view(t, s, v) for s, t, v in zip(given.stages, given.stages[1:], given.views)]
        if given.views and not case.writes_into(given):
            lines.append(f'{given.name} = move({given.name})')
        if dense and not case.writes_into(given):
            lines.append(f'{given.name} = {given.name}.contiguous()')
        if given.leaf == 'view':
            lines.append(f'{given.name}.requires_grad_()')
    if stand_in:
        lines += [f'{LEAF}{given.leaf_name} = {given.leaf_name}' for given in case.inputs if given.leaf_name]
        return lines + stand_in.before(case) + case.torch + stand_in.after(case)
    return lines + case.torch


def compiled(case, dense=False, stand_in=None):
    return compile('\n'.join(torch_source(case, dense, stand_in)), f'case {case.number}', 'exec')


def draw_grads(case, arrays):
    """Gradients for the float results that want one."""
    rng, outs = np.random.Generator(np.random.PCG64([case.number, 99])), {}
    for name in case.results:
        t = arrays.results[name]
        if arrays.requires_grad[name]:
            whole = rng.choice([-2.0, -1.0, 1.0, 2.0], tuple(t.shape))
            g = whole if case.number % 3 == 0 else rng.standard_normal(tuple(t.shape))
            outs[name] = torch.from_numpy(np.asarray(g)).to(t.dtype)
    return outs


def torch_in_its_type(case, code):
    """Results, the gradients that went in, and why torch refused."""
    try:
        same = run_torch(case, code, False)
        grad_outs = draw_grads(case, same)
        return (run_torch(case, code, False, grad_outs) if grad_outs else same), grad_outs, None
    except REFUSALS as error:
        return None, {}, str(error).strip().split('\n')[0] or type(error).__name__


def torch_in_f64(case, code, grad_outs, same):
    """Results in f64, and the gradients that went in."""
    try:
        wide = run_torch(case, code, True)
        if same is None:
            grad_outs = {name: g.bfloat16() for name, g in draw_grads(case, wide).items()}
        return (run_torch(case, code, True, grad_outs) if grad_outs else wide), grad_outs
    except REFUSALS:
        return None, grad_outs


# --- one case

def run_case(case, program):
    code, wide = compiled(case), None
    same, grad_outs, refusal = torch_in_its_type(case, code)
    if refusal and STRIDE_BUGS.search(refusal) and not case.strides_matter:
        code = compiled(case, dense=True)
        same, grad_outs, refusal = torch_in_its_type(case, code)
    stand_in = stand_in_for(case, refusal) if refusal else None
    if stand_in:
        code = compiled(case, stand_in=stand_in)
        same, grad_outs, refusal = torch_in_its_type(case, code)
        if refusal and STRIDE_BUGS.search(refusal):
            code = compiled(case, dense=True, stand_in=stand_in)
            same, grad_outs, refusal = torch_in_its_type(case, code)
    if refusal is None or NO_BF16.search(refusal):
        wide, grad_outs = torch_in_f64(case, code, grad_outs, same)
    answer, failure = program.ask(statements_of(case, grad_outs if same or wide else None))
    case.refusal, case.failure = refusal, failure
    if failure and not failure.startswith('error '):
        return Outcome('crash' if failure.startswith('crash') else 'unstable', failure)
    if failure:
        return Outcome('refused by det', failure) if same else Outcome('agree', note='both refused')
    if not same and not wide:
        return Outcome('refused by torch', refusal)
    case.stood_in = stand_in is not None
    outcome = judge(case, code, same, wide, grad_outs, answer)
    other = stand_in_for(case, None)
    if other and outcome.kind in ('values', 'gradient'):
        again = judge_by(case, other, grad_outs, answer)
        return again if again.kind == 'agree' else outcome
    if stand_in and outcome.kind == 'agree':
        outcome.note = f'with torch {stand_in.note}'
    return outcome


def judge_by(case, stand_in, grad_outs, answer):
    """The same beside torch's functions put together differently."""
    case.stood_in = True
    code = compiled(case, stand_in=stand_in)
    same, wide = (run_torch(case, code, w, grad_outs) for w in (False, True))
    outcome = judge(case, code, same, wide, grad_outs, answer)
    outcome.note = f'with torch {stand_in.note}'
    return outcome


def judge(case, code, same, wide, grad_outs, answer):
    if case.free_choice:
        complaint = check_choice(case, answer)
        if complaint:
            return Outcome('values', complaint)
        code, same, wide = follow_choice(case, answer, grad_outs)
    complaint = compare_all(case, Judge(case, code, same, wide, grad_outs), answer)
    if complaint and same and not case.free_choice and not case.stood_in:
        code = compiled(case, dense=True)
        same, wide = (run_torch(case, code, w, grad_outs) for w in (False, True))
        if not compare_all(case, Judge(case, code, same, wide, grad_outs), answer):
            return Outcome('agree', note='with torch on a row-major copy')
    if complaint:
        case.undecided = complaint[0] == 'gradient' and is_undecided(case, torch_source(case), grad_outs)
        return Outcome(*complaint)
    return Outcome('agree', note=None if same else 'with torch in f64, which has no loop for bf16')


def check_choice(case, answer):
    """Indices must be different and lead to the values; which of several equal elements they name is free."""
    name, source, dim = case.free_choice
    chosen, values = answer[name][0], answer[case.results[0]][0]
    inputs = compile('\n'.join(torch_source(case)[:-len(case.torch)]), 'inputs', 'exec')
    x = run_torch(case, inputs, False, names=[source]).results[source]
    if chosen.dim() < x.dim():  # the dim went away
        chosen, values = chosen.unsqueeze(dim), values.unsqueeze(dim)
    if chosen.numel() and not equal(x.gather(dim, chosen), values).all():
        return f'{name} does not lead to the values'
    ordered = chosen.sort(dim)[0]
    n = ordered.shape[dim] if ordered.dim() else 1
    if n > 1 and (ordered.narrow(dim, 1, n - 1) == ordered.narrow(dim, 0, n - 1)).any():
        return f'{name} names an element twice'
    return None


def follow_choice(case, answer, grad_outs):
    """torch with our choice of indices."""
    name, source, dim = case.free_choice
    case.torch_env = {name: answer[name][0]}
    gathered = f'{source}.gather({dim}, {name})'
    if case.drops_dim:
        gathered = f'{source}.gather({dim}, {name}.unsqueeze({dim})).squeeze({dim})'
    lines = torch_source(case)[:-len(case.torch)] + [f'{case.results[0]} = {gathered}']
    code = compile('\n'.join(lines), f'case {case.number}', 'exec')
    return code, run_torch(case, code, False, grad_outs), run_torch(case, code, True, grad_outs)


def compare_all(case, judge_, answer):
    """(kind, text) of the first complaint, or None."""
    torchs = judge_.same or judge_.wide
    for name in case.results:
        complaint = compare_result(case, judge_, name, answer[name])
        if complaint:
            return complaint
    if case.shapes_only or case.undefined or not judge_.grad_outs:
        return None
    for leaf, theirs in torchs.grads.items():
        ours = answer[f'g_{leaf}']
        if (ours is None) != (theirs is None):
            return 'gradient', f'gradient of {leaf}: {"det" if ours is None else "torch"} has none'
        if ours is None:
            continue
        if ours[0].shape != theirs.shape:
            return 'gradient', f'gradient of {leaf} is {tuple(ours[0].shape)}, torch has {tuple(theirs.shape)}'
        complaint = judge_.floats('grads', leaf, ours[0])
        if complaint:
            return 'gradient', f'gradient of {leaf} {complaint}'
    return None


def compare_result(case, judge_, name, shown):
    torchs = judge_.same or judge_.wide
    theirs = torchs.results[name]
    if shown is None:
        return 'values', f'{name}: nothing'
    ours, requires_grad = shown
    dtype = theirs.dtype
    if not judge_.same and theirs.is_floating_point():  # theirs is f64
        dtype = next((TORCH[given.dtype] for given in case.inputs if given.name == name), torch.bfloat16)
    if ours.dtype != dtype:
        return 'type', f'{name} is {NAME[ours.dtype]}, torch has {NAME[dtype]}'
    if ours.shape != theirs.shape:
        return 'shape', f'{name} is {tuple(ours.shape)}, torch has {tuple(theirs.shape)}'
    if requires_grad != torchs.requires_grad[name]:
        return 'gradient', f'{name}: requires_grad is {requires_grad}, torch has {torchs.requires_grad[name]}'
    if case.shapes_only or case.undefined:
        return None
    if ours.is_floating_point():
        complaint = judge_.floats('results', name, ours)
    else:
        good = equal(ours, theirs)
        complaint = None if good.all() else first_difference(ours, theirs, good)
    return ('values', f'{name} {complaint}') if complaint else None


# --- many cases

def describe(case):
    lines = [f'case {case.number} of seed {case.seed}: {case.op}']
    for given in case.inputs:
        stages = given.stages
        grad = {'none': '', 'view': ', requires grad', 'base': f', {stages[0]} requires grad'}[given.leaf]
        lines.append(f'  {given.name}: {given.dtype}, base {stages[0]} {given.base.shape}{grad}')
        lines += [f'    det    {c_text(view_text(t, s, v))}' for s, t, v in zip(stages, stages[1:], given.views)]
    lines += [f'  det    {c_text(s)}' for s in case.det]
    lines += [f'  torch  {s}' for s in case.torch]
    return '\n'.join(lines)


def run_one(number, seed, program):
    case = draw(number, seed, list(SPACE))
    outcome = run_case(case, program)
    print(describe(case))
    for given in case.inputs:
        print(f'  {given.stages[0]} = {given.base.tolist()}')
    accepted = next((e for e in ACCEPTED if e.explains(case, outcome)), None)
    print(f'{outcome.kind}: {outcome.text or outcome.note or ""}' + (f' (accepted: {accepted.reason})' if accepted else ''))
    for side, why in (('torch', case.refusal), ('det', case.failure)):
        if why:
            print(f'{side}: {why}')
    return outcome.kind == 'agree' or accepted is not None


class Tally:
    def __init__(self):
        self.kinds, self.notes, self.accepted = collections.Counter(), collections.Counter(), 0

    def add(self, case, outcome):
        """Counts an outcome; tells one that nothing explains."""
        explanation = next((e for e in ACCEPTED if e.explains(case, outcome)), None)
        if outcome.kind == 'agree':
            self.notes[outcome.note] += 1
        elif explanation:
            self.accepted += 1
            explanation.count += 1
            return
        else:
            print(f'{describe(case)}\n  => {outcome.kind}: {outcome.text}')
        self.kinds[outcome.kind] += 1

    def report(self, n_ops, seconds):
        total = self.accepted + sum(self.kinds.values())
        agree = self.kinds['agree']
        notes = ', '.join(f'{n} {note}' for note, n in self.notes.items() if note)
        print(f'{total} cases of {n_ops} operations in {seconds:.0f} s: {agree} agree ({notes}), {self.accepted} differ '
              f'for a reason that docs/parity.md lists, {total - agree - self.accepted} differ without one; '
              f'{100 * agree / total:.2f} % agree')
        return agree + self.accepted == total and (total < ALL_SEEN or agree >= WANTED * total)


def run_many(numbers, seed, program):
    names, tally, started = list(SPACE), Tally(), time.time()
    for number in numbers:
        case = draw(number, seed, names)
        tally.add(case, run_case(case, program))
    fine = tally.report(len(names), time.time() - started)
    if len(numbers) >= ALL_SEEN:
        for entry in ACCEPTED:
            print(f"  {entry.count:5} {', '.join(entry.ops)[:60]}: {entry.what}")
            if not entry.count:
                print('        (it explains nothing here; delete it if that is so with other seeds)')
    return fine


def public_functions():
    """Names of the functions in the headers that take or make tensors, without det_."""
    ops, losses, tensor = ((ROOT / 'include/det' / name).read_text() for name in ('ops.h', 'losses.h', 'tensor.h'))
    ops += losses
    names = set(re.findall(r'DET_API[^;(]*?\bdet_(\w+)\(', ops)) | set(re.findall(r'\bF\((\w+)\)', ops))
    names |= set(re.findall(r'DET_API det_tensor \*det_(\w+)\(', tensor)) | set(re.findall(r'\bdet_(\w+_)\(', tensor))
    return {name.removesuffix('_with') for name in names if not name.endswith('##')} - NOT_CALLED


def missing_entries(program):
    """Functions of the headers that cannot be called or are not drawn."""
    callable_, drawn = set(program.functions()), {name.split()[0] for name in SPACE} | USED_BY_CASES
    bad = [f'op_calls.def has no {name}' for name in sorted(public_functions() - callable_)]
    return bad + [f'op_space.py draws no {name}' for name in sorted(callable_ - drawn)]


def stale_documentation():
    shown = (ROOT / 'docs/parity.md').read_text()
    return [] if markdown() in shown else ['docs/parity.md does not show what op_parity.py --accepted prints']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', nargs='?')
    parser.add_argument('--cases', type=int, default=4000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--op')
    parser.add_argument('--case', type=int)
    parser.add_argument('--accepted', action='store_true')
    options = parser.parse_args()
    if options.accepted:
        print(markdown(), end='')
        return
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    # which of its kernels oneDNN takes depends on the processor, and with AVX-512 transposed convolutions of bf16 are plain ones
    torch.backends.mkldnn.set_flags(False)
    program, names = Program(options.program), list(SPACE)
    if options.case is not None:
        sys.exit(not run_one(options.case, options.seed, program))
    bad = missing_entries(program) + stale_documentation()
    print('\n'.join(bad), end='\n' if bad else '')
    numbers = range(options.cases)
    if options.op:
        numbers = range(names.index(options.op), options.cases * len(names), len(names))
    fine = run_many(numbers, options.seed, program)
    sys.exit(bool(bad or not fine or program.close()))


if __name__ == '__main__':
    main()
