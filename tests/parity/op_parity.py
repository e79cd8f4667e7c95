#!/usr/bin/python3
"""Compares every operation with torch: op_parity.py PROGRAM [ROUNDS [OP]].

Results and gradients in f32 and f64 must be within 1e-5 (1e-7) of torch's f64 result, relative to the
size of the values involved; bf16 within its own precision.
"""
import json
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

TYPES = {'f32': np.float32, 'f64': np.float64, 'bf16': np.uint16, 'i64': np.int64, 'i32': np.int32,
         'u8': np.uint8, 'bool': np.uint8}
TOLERANCE = {'f32': 1e-5, 'f64': 1e-7, 'bf16': 4e-2}


def read_array(stream, spec):
    dtype = TYPES[spec['dtype']]
    count = int(np.prod(spec['shape'], dtype=np.int64))
    a = np.frombuffer(stream.read(count * np.dtype(dtype).itemsize), dtype)
    if spec['dtype'] == 'bf16':
        a = (a.astype(np.uint32) << 16).view(np.float32)
    t = torch.from_numpy(a.reshape(spec['shape']).copy())
    if spec['dtype'] == 'bool':
        return t.bool()
    return t.double() if t.is_floating_point() else t


def attributes(text):
    env = {}
    for word in text.split():
        name, value = word.split('=')
        try:
            values = [float(v) if '.' in v else int(v) for v in value.split(',')]
        except ValueError:
            continue  # an expression in letters: the torch side spells it out
        env[name] = values[0] if len(values) == 1 else values
    return env


def distance(ours, theirs):
    if ours.shape != theirs.shape:
        return f'shape {tuple(ours.shape)}, torch has {tuple(theirs.shape)}'
    if not ours.is_floating_point() and not theirs.is_floating_point():
        return 0.0 if torch.equal(ours.long(), theirs.long()) else 'values differ'
    ours, theirs = ours.double(), theirs.double()
    both_nan = torch.isnan(ours) & torch.isnan(theirs)
    same_inf = torch.isinf(theirs) & (ours == theirs)
    ok = both_nan | same_inf
    diff = torch.where(ok, torch.zeros_like(ours), (ours - theirs).abs())
    if torch.isnan(diff).any():
        return 'NaN where torch has none'
    finite = theirs[torch.isfinite(theirs)]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    return (diff / (theirs.abs().nan_to_num(posinf=0, neginf=0) + scale + 1e-6)).max().item() if diff.numel() else 0.0


def check(record, arrays):
    """Returns a list of complaints."""
    env = {**record['letters'], **attributes(record['attrs']), 'torch': torch, 'F': F}
    ins = [a for a in arrays if a[0]['what'] == 'in']
    grads = {s['name']: t for s, t in arrays if s['what'] == 'grad_in'}
    leaves = {}
    for spec, t in ins:
        leaves[spec['name']] = t.requires_grad_(spec['name'] in grads)
        env[spec['name']] = leaves[spec['name']]
    result = eval(record['expr'], env)
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    outs = [t for s, t in arrays if s['what'] == 'out'][:len(result)]
    complaints = []
    if record['shapes_only']:
        return [f'shape {tuple(a.shape)} / {tuple(b.shape)}' for a, b in zip(outs, result) if a.shape != b.shape]
    tolerance = TOLERANCE[record['dtype']]
    for ours, theirs in zip(outs, result):
        d = distance(ours, theirs.detach())
        if isinstance(d, str) or d > tolerance:
            complaints.append(f'result: {d}')
    if grads:
        wanted = [t for t in result if t.requires_grad]
        given = [t for s, t in arrays if s['what'] == 'grad_out'][:len(wanted)]
        torch.autograd.backward(wanted, given)
        for name, ours in grads.items():
            theirs = leaves[name].grad
            d = distance(ours, torch.zeros_like(ours) if theirs is None else theirs)
            if isinstance(d, str) or d > tolerance:
                complaints.append(f'gradient of {name}: {d}')
    return complaints


def main():
    program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
    checked, skipped, bad, ops = 0, 0, 0, set()
    while True:
        line = program.stdout.readline()
        if not line:
            break
        record = json.loads(line)
        arrays = [(spec, read_array(program.stdout, spec)) for spec in record['arrays']]
        where = f"{record['op']} {record['dtype']} layout {record['layout']}: {record['expr']} {[s['shape'] for s in record['arrays'] if s['what'] == 'in']}"
        ops.add(record['op'])
        if record['error']:
            skipped += 1
            if 'wants' not in record['error'] and 'not for' not in record['error'] and 'one type' not in record['error']:
                print(f"{where}: {record['error']}")
                bad += 1
            continue
        checked += 1
        for complaint in check(record, arrays):
            print(f'{where}: {complaint}')
            bad += 1
    print(f'{checked} runs of {len(ops)} operations compared with torch, {skipped} of unsupported types, {bad} complaints')
    sys.exit(1 if bad or program.wait() else 0)


main()
