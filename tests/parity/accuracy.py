#!/usr/bin/python3
"""How many digits det and torch lose in 32 bits: accuracy.py PROGRAM short|long|WORD...

The error of a result is its largest distance from the same computed in 64 bits, relative to the largest value there; of a case, the
median over the seeds; of the network, the lower quartile, because in a third of the seeds, on either side, rounding decides a ReLU. Both
sides get the same inputs. torch computes convolutions in more than one way; the most exact one counts. Our error must not be more than
3 times torch's; 4 times where most of the gradient is zero, because the transforms of a convolution round as much as if it were not.
Where a ReLU or a maximum is decided by less than what is lost (as it may be on either side), the gradient that comes back is zero, except
in the whole network.

short: a choice of cases and 5 seeds; long: everything, 10 seeds; WORD: the cases whose names have one of the words in them.
"""
import copy
import dataclasses
import math
import os
import statistics
import subprocess
import sys
import typing

import torch
import torch.nn.functional as F

import wire

sys.path.insert(0, f'{os.path.dirname(__file__)}/../support')
import models

DOUBT = 1e-4  # of the largest value: closer than that, either of two may be the larger one


class Program:
    def __init__(self, command):
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        wire.write(self.process.stdin, request)
        self.process.stdin.flush()
        answer = wire.read(self.process.stdout)
        if 'error' in answer:
            sys.exit(f"{request['name']}: {answer['error']}")
        return answer['results']


# --- operations

def conv(o, x, w, b=None):
    return F.conv2d(x, w, b, o.get('stride', 1), o.get('padding', 0))


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, True)


def windows(y):
    return F.unfold(y.flatten(0, 1).unsqueeze(1), 2, stride=2).sort(1, descending=True)[0]


def clear_sign(y):
    return y.abs() > DOUBT * y.abs().max()


def clear_winner(y):
    """Of each window of 2 x 2: the largest is so by far, and so it is from zero."""
    best = windows(y)
    clear = (best[:, 0] - best[:, 1] > DOUBT * y.abs().max()) & (best[:, 0].abs() > DOUBT * y.abs().max())
    return clear.view(y.shape[0], y.shape[1], y.shape[2] // 2, y.shape[3] // 2)


@dataclasses.dataclass
class Operation:
    before: typing.Callable  # what the rest is applied to, of options and inputs
    rest: typing.Callable = lambda y: y
    clear: typing.Callable = None  # of what is before: where the rest is beyond doubt
    results: tuple = ('value', 'by x', 'by weight', 'by bias')
    factor: float = 3  # how many times torch's error ours may be

    def run(self, options, inputs):
        return self.rest(self.before(options, *inputs))


def relu_of_pool(y):
    return F.relu(F.max_pool2d(y, 2))


OPERATIONS = {
    'conv': Operation(conv),
    'conv_relu': Operation(conv, F.relu, clear_sign, factor=4),
    'conv_pool_relu': Operation(conv, relu_of_pool, clear_winner, factor=4),
    'linear': Operation(lambda o, x, w, b: F.linear(x, w, b)),
    'batch_norm': Operation(lambda o, *i: batch_norm(*i)),
    'batch_norm_relu': Operation(lambda o, *i: batch_norm(*i), F.relu, clear_sign),
    'batch_norm_add_relu': Operation(lambda o, x, w, b, s: batch_norm(x, w, b) + s, F.relu, clear_sign,
                                     ('value', 'by x', 'by weight', 'by bias', 'by skip')),
    'batch_norm_pool': Operation(lambda o, *i: batch_norm(*i), relu_of_pool, clear_winner),
    'layer_norm': Operation(lambda o, x, w, b: F.layer_norm(x, w.shape, w, b)),
    'group_norm': Operation(lambda o, x, w, b: F.group_norm(x, o['groups'], w, b)),
    'sum': Operation(lambda o, x: x.sum(0), results=('value',)),
    'var': Operation(lambda o, x: x.var(0, unbiased=False), results=('value', 'by x'), factor=4),
}


# --- cases

@dataclasses.dataclass
class Case:
    group: str
    name: str
    operation: str
    inputs: typing.Callable  # () -> tensors
    options: dict
    short: bool = False  # part of the short form


def images(n, c, h, mean=0.0, relu=False):
    x = torch.randn(n, c, h, h) + mean
    return F.relu(x) if relu else x


def conv_case(c, oc, h, n, k=3, stride=1, padding=None, op='conv', relu=False, short=False):
    padding = k // 2 if padding is None else padding
    name = f"{k}x{k}{'/' + str(stride) if stride > 1 else ''} {c}->{oc}, {n} of {h}x{h}{', behind relu' if relu else ''}"
    return Case(op, name, op, lambda: [images(n, c, h, relu=relu), torch.randn(oc, c, k, k) / math.sqrt(c * k * k), torch.randn(oc) * 0.1],
                dict(stride=stride, padding=padding), short)


def norm_case(op, c, h, n, mean, groups=0, short=False):
    def inputs():
        shift = mean * (1 + 0.1 * torch.randn(1, c, 1, 1))
        t = [images(n, c, h) * (0.5 + torch.rand(1, c, 1, 1)) + shift, 1 + 0.1 * torch.randn(c), 0.1 * torch.randn(c)]
        return t + [torch.randn(n, c, h, h)] if 'add' in op else t
    groups_text = f', {groups} groups' if groups else ''
    return Case(op, f'{c} channels, {n} of {h}x{h}{groups_text}, mean {mean}', op, inputs, dict(groups=groups), short)


def layer_case(d, rows, mean, short=False):
    return Case('layer_norm', f'{rows} rows of {d}, mean {mean}', 'layer_norm',
                lambda: [torch.randn(rows, d) + mean, 1 + 0.1 * torch.randn(d), 0.1 * torch.randn(d)], {}, short)


def linear_case(k, n, rows, short=False):
    return Case('linear', f'{rows} rows, {k}->{n}', 'linear',
                lambda: [torch.randn(rows, k), torch.randn(n, k) / math.sqrt(k), torch.randn(n)], {}, short)


def column_case(op, rows, c, mean, short=False):
    return Case(op, f'{rows} rows of {c}, mean {mean}', op, lambda: [torch.randn(rows, c) + mean], {}, short)


def cases():
    wide = [(16, 32, 8), (32, 32, 8), (64, 32, 8), (128, 16, 8), (256, 8, 8), (512, 4, 8),  # ResNets of 32 x 32 pictures
            (64, 56, 2), (128, 28, 2), (256, 14, 2), (512, 7, 2), (512, 14, 2)]  # of 224 x 224 ones, VGG
    short = {(16, 32, 8), (64, 32, 8), (256, 8, 8), (512, 4, 8)}
    yield from (conv_case(c, c, h, n, short=(c, h, n) in short) for c, h, n in wide)
    yield from (conv_case(c, c, h, n, relu=True) for c, h, n in wide[:6])
    yield from (conv_case(c, 2 * c, h, n, stride=2) for c, h, n in [(16, 32, 8), (64, 32, 8), (256, 8, 8)])
    yield from (conv_case(c, 2 * c, h, n, k=1, stride=2) for c, h, n in [(16, 32, 8), (64, 32, 8), (256, 8, 8)])
    yield conv_case(256, 64, 14, 4, k=1, short=True)
    yield conv_case(3, 64, 32, 8)
    yield conv_case(3, 64, 64, 4, k=7, stride=2)
    yield conv_case(64, 64, 14, 4, k=5, short=True)
    yield from (conv_case(c, c, h, n, op='conv_relu') for c, h, n in [(64, 32, 8), (512, 4, 8)])
    yield conv_case(1, 40, 28, 16, k=5, padding=0, op='conv_pool_relu', short=True)
    yield conv_case(40, 40, 12, 16, k=5, padding=0, op='conv_pool_relu', short=True)
    yield from (conv_case(c, c, h, n, op='conv_pool_relu') for c, h, n in [(64, 32, 8), (256, 8, 8)])
    yield from (linear_case(k, 64, 256, k == 4096) for k in (256, 1024, 4096))
    for mean in (0, 1, 10, 100):
        yield from (norm_case('batch_norm', c, 32, 16, mean, short=c in (1, 8) and mean in (0, 10)) for c in (1, 2, 8, 16, 32, 64))
    for op in ('batch_norm_relu', 'batch_norm_add_relu', 'batch_norm_pool'):
        yield from (norm_case(op, c, 32, 16, mean, short=c == 8) for c in (8, 64) for mean in (0, 100))
    yield norm_case('batch_norm', 512, 4, 64, 10)
    for mean in (0, 1, 10, 100):
        yield from (norm_case('group_norm', c, 32, 4, mean, groups, short=c == 8 and mean == 10) for c, groups in ((8, 2), (64, 8), (64, 64)))
        yield from (layer_case(d, 512, mean, short=d == 256 and mean == 10) for d in (16, 256, 1024))
        yield from (column_case(op, 16384, c, mean, short=c == 8 and mean == 10) for op in ('sum', 'var') for c in (8, 64))


# --- measuring

def error(result, exact):
    """NaN counts as infinitely wrong."""
    e = ((result.double() - exact).abs().max() / exact.abs().max()).item()
    return math.inf if math.isnan(e) else e


def gradients(case, inputs, grad, dtype):
    t = [i.to(dtype, copy=True).requires_grad_() for i in inputs]
    y = OPERATIONS[case.operation].run(case.options, t)
    y.backward(grad.to(dtype))
    return [y.detach()] + [i.grad for i in t]


def torch_routes(case, inputs, grad):
    yield gradients(case, inputs, grad, torch.float32)
    if 'conv' in case.operation:
        with torch.backends.mkldnn.flags(enabled=False):
            yield gradients(case, inputs, grad, torch.float32)


def grad_of(case, inputs):
    """A gradient of the result, zero where its sign or winner is in doubt."""
    operation = OPERATIONS[case.operation]
    with torch.no_grad():
        before = operation.before(case.options, *(i.double() for i in inputs))
        g = torch.randn(operation.rest(before).shape)
        return g * operation.clear(before) if operation.clear else g


def measure(program, case, seed):
    """Errors of each result: ours, and torch's by each of its routes."""
    torch.manual_seed(seed)
    inputs = case.inputs()
    grad = grad_of(case, inputs)
    exact = gradients(case, inputs, grad, torch.float64)
    ours = program.ask(name=case.operation, inputs=inputs, grad=grad, **case.options)
    names = OPERATIONS[case.operation].results
    return [[error(r, e) for r, e, _ in zip(run, exact, names)] for run in (ours, *torch_routes(case, inputs, grad))]


def lower_quartile(values):
    values = sorted(values)
    return values[len(values) // 4]


def typical(errors, of=statistics.median):
    """[seed][run][result] -> our error and torch's best of each result."""
    runs = [[of([seed[r][i] for seed in errors]) for i in range(len(errors[0][r]))] for r in range(len(errors[0]))]
    return [(ours, min(theirs)) for ours, *theirs in zip(*runs)]


def report(group, name, operation, pairs):
    bad = 0
    for result, (ours, theirs) in zip(operation.results, pairs):
        wrong = not ours <= operation.factor * theirs
        bad += wrong
        print(f"| {group} | {name} | {result} | {ours:.1e} | {theirs:.1e} | {ours / theirs if theirs else math.inf:.1f} |{' <-' if wrong else ''}",
              flush=True)
    return bad


# --- a whole network

def network_grads(m, x, target):
    out = m(x)
    F.cross_entropy(out, target).backward()
    return [out.detach()] + [p.grad for p in m.parameters()]


def measure_network(program, seed, width=16, batch=16):
    """Of the output, and the worst of the gradients: ours and torch's."""
    torch.manual_seed(seed)
    m, x, target = models.resnet(width), torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    exact = network_grads(copy.deepcopy(m).double(), x.double(), target)
    ours = program.ask(name='resnet', width=width, state=dict(m.state_dict()), inputs=[x, target])
    theirs = network_grads(copy.deepcopy(m), x, target)
    return [[error(run[0], exact[0]), max(error(r, e) for r, e in zip(run[1:], exact[1:]))] for run in (ours, theirs)]


def main():
    program, words = Program(sys.argv[1]), sys.argv[2:]
    form = words[0] if words[0] in ('short', 'long') else None
    bad, compared, n_seeds = 0, 0, 5 if form == 'short' else 10
    print('| operation | case | result | det | torch | ratio |\n|---|---|---|---|---|---|')
    for case in cases():
        if form == 'short' and not case.short:
            continue
        if not form and not any(w in f'{case.group} {case.name}' for w in words):
            continue
        pairs = typical([measure(program, case, seed) for seed in range(n_seeds)])
        compared += len(pairs)
        bad += report(case.group, case.name, OPERATIONS[case.operation], pairs)
    if form or 'resnet' in words:
        n_network = 8 if form == 'short' else 20
        seeds = [measure_network(program, seed) for seed in range(n_network)]
        for i, (ours, theirs) in enumerate(seeds):
            print(f'seed {i}: output {ours[0]:.1e} torch {theirs[0]:.1e}, gradients {ours[1]:.1e} torch {theirs[1]:.1e}')
        bad += report('resnet', 'width 16, batch 16', Operation(None, results=('value', 'gradients')), typical(seeds, lower_quartile))
    print(f'{compared} results compared with 64 bits, {bad} further off than allowed')
    sys.exit(bool(bad))


main()
