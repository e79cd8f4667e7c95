#!/usr/bin/python3
"""Compares modules, optimizers, schedules and whole models with torch: nn_parity.py PROGRAM [NAME...].

Both sides start from torch's weights and take the same 100 steps. Every output, gradient and final weight of a
module, and every parameter after every step of an optimizer must be within 1e-5 of torch's, relative to the
largest value of the tensor; learning rates and momentums within 1e-12. All losses of a model must be within 1e-5 of those of a
run of torch. State dicts go both ways.
"""
import copy
import math
import os
import subprocess
import sys
import types
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler as lrs

import wire

sys.path.insert(0, f'{os.path.dirname(__file__)}/../support')
import models

warnings.filterwarnings('ignore')
torch.manual_seed(1)
STEPS = 100
TORCH_RUNS = 64


class Program:
    def __init__(self, command):
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        wire.write(self.process.stdin, request)
        self.process.stdin.flush()
        return wire.read(self.process.stdout)


def distance(ours, theirs):
    """Largest difference, relative to the largest value of the tensor."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if ours.shape != theirs.shape:
        return math.inf
    ours, theirs = ours.double(), theirs.detach().double()
    scale = max(theirs.abs().max().item(), 1e-3) if theirs.numel() else 1.0
    d = ((ours - theirs).abs().max().item() / scale) if theirs.numel() else 0.0
    return math.inf if math.isnan(d) else d


def worst(pairs):
    return max([distance(a, b) for a, b in pairs], default=0.0)


def state_distance(ours, theirs):
    if list(ours) != list(theirs):
        return math.inf
    return worst([(ours[k], theirs[k]) for k in theirs])


# --- modules

class RMSNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Module:
    """A module, shapes of its inputs, and how it is run if not m(x)."""

    def __init__(self, module, *shapes, run=lambda m, x: m(x), below=None, train=True):
        self.module, self.shapes, self.run, self.below, self.train = module, shapes, run, below, train

    def inputs(self):
        if self.below:
            return [torch.randint(self.below, s) for s in self.shapes]
        return [s if isinstance(s, torch.Tensor) else None if s is None else torch.randn(s) for s in self.shapes]


def first(m, x):
    return m(x)[0]


def with_states(m, x, h, c=None):
    y, states = m(x, (h, c) if c is not None else h)
    return (y, *states) if c is not None else (y, states)


def attend(m, q, k, v, mask=None):
    return m(q, k, v, attn_mask=mask)[0]


def forbid_later(n):
    return torch.full((n, n), -math.inf).triu(1)


def causal(m, x):
    return m(x, x, x, attn_mask=forbid_later(x.shape[1]))[0]


def seq_mask(m, x):
    return m(x, forbid_later(x.shape[1]))


def self_attention(m, x):
    return m(x, x, x)[0]


IMAGE = (2, 6, 9, 8)
MODULES = {
    'Linear': Module(nn.Linear(5, 3), (4, 5)),
    'LinearNoBias': Module(nn.Linear(5, 3, bias=False), (2, 4, 5)),
    'Conv1d': Module(nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 11)),
    'Conv2d': Module(nn.Conv2d(3, 8, 3, padding=1), (2, 3, 9, 8)),
    'Conv2dOptions': Module(nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), 2, 2, bias=False), (2, 4, 9, 8)),
    'ConvTranspose2d': Module(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2), (2, 4, 5, 6)),
    'MaxPool2d': Module(nn.MaxPool2d(2), IMAGE),
    'MaxPool2dOptions': Module(nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    'AvgPool2d': Module(nn.AvgPool2d(2), IMAGE),
    'AvgPool2dOptions': Module(nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    'AdaptiveAvgPool2d': Module(nn.AdaptiveAvgPool2d((3, 2)), IMAGE),
    'AdaptiveMaxPool2d': Module(nn.AdaptiveMaxPool2d((2, 3)), IMAGE),
    'UpsampleNearest': Module(nn.Upsample(scale_factor=2), IMAGE),
    'UpsampleBilinear': Module(nn.Upsample(scale_factor=3, mode='bilinear', align_corners=True), IMAGE),
    'BatchNorm1d': Module(nn.BatchNorm1d(6), (5, 6)),
    'BatchNorm1d3': Module(nn.BatchNorm1d(6, 1e-3, 0.3), (5, 6, 4)),
    'BatchNorm2d': Module(nn.BatchNorm2d(6), IMAGE),
    'BatchNorm2dPlain': Module(nn.BatchNorm2d(6, affine=False, track_running_stats=False), IMAGE),
    'BatchNorm2dEval': Module(nn.BatchNorm2d(6), IMAGE, train=False),
    'LayerNorm': Module(nn.LayerNorm(7), (3, 2, 7)),
    'LayerNormPlain': Module(nn.LayerNorm(7, 1e-3, elementwise_affine=False), (3, 2, 7)),
    'RMSNorm': Module(RMSNorm(7, 1e-6), (3, 2, 7)),
    'GroupNorm': Module(nn.GroupNorm(3, 6), IMAGE),
    'Embedding': Module(nn.Embedding(11, 4), (3, 5), below=11),
    'EmbeddingPadding': Module(nn.Embedding(11, 4, padding_idx=-2), (3, 5), below=11),
    'DropoutEval': Module(nn.Dropout(), (4, 5), train=False),
    'Dropout2dEval': Module(nn.Dropout2d(), IMAGE, train=False),
    'Flatten': Module(nn.Flatten(), IMAGE),
    'Identity': Module(nn.Identity(), (4, 5)),
    'Softmax': Module(nn.Softmax(1), (3, 4, 5)),
    'LogSoftmax': Module(nn.LogSoftmax(-1), (3, 4, 5)),
    'ReLU': Module(nn.ReLU(), (4, 5)),
    'GELU': Module(nn.GELU(), (4, 5)),
    'SiLU': Module(nn.SiLU(), (4, 5)),
    'Tanh': Module(nn.Tanh(), (4, 5)),
    'Sigmoid': Module(nn.Sigmoid(), (4, 5)),
    'LeakyReLU': Module(nn.LeakyReLU(0.2), (4, 5)),
    'ELU': Module(nn.ELU(0.7), (4, 5)),
    'Sequential': Module(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh()),
                                       nn.Linear(8, 2)), (4, 5)),
    'RNN': Module(nn.RNN(5, 6), (7, 3, 5), run=first),
    'RNNRelu': Module(nn.RNN(5, 6, 2, nonlinearity='relu', bias=False), (7, 3, 5), run=first),
    'RNNStates': Module(nn.RNN(5, 6, 2, bidirectional=True), (7, 3, 5), (4, 3, 6), run=with_states),
    'GRU': Module(nn.GRU(5, 6, batch_first=True), (3, 7, 5), run=first),
    'GRUStates': Module(nn.GRU(5, 6, 2, bidirectional=True), (7, 3, 5), (4, 3, 6), run=with_states),
    'LSTM': Module(nn.LSTM(5, 6, 2, batch_first=True), (3, 7, 5), run=first),
    'LSTMStates': Module(nn.LSTM(5, 6, 2, bidirectional=True), (7, 3, 5), (4, 3, 6), (4, 3, 6), run=with_states),
    'MultiheadAttention': Module(nn.MultiheadAttention(8, 2), (6, 3, 8), run=self_attention),
    'MultiheadAttentionCross': Module(nn.MultiheadAttention(8, 2, batch_first=True), (3, 6, 8), (3, 5, 8),
                                      (3, 5, 8), run=attend),
    'MultiheadAttentionMask': Module(nn.MultiheadAttention(8, 4, bias=False), (6, 3, 8), (5, 3, 8), (5, 3, 8),
                                     (6, 5), run=attend),
    'MultiheadAttentionCausal': Module(nn.MultiheadAttention(8, 2, batch_first=True), (3, 6, 8), run=causal),
    'TransformerEncoderLayer': Module(nn.TransformerEncoderLayer(8, 2, 16, dropout=0), (6, 3, 8)),
    'TransformerEncoderLayerOptions': Module(
        nn.TransformerEncoderLayer(8, 2, 16, 0, 'gelu', batch_first=True, norm_first=True), (3, 6, 8), run=seq_mask),
}


def perturb(m):
    """Moves weights away from zeros and ones, and running statistics from where they start."""
    with torch.no_grad():
        for p in m.parameters():
            p.add_(0.1 * torch.randn_like(p))
        for name, b in m.named_buffers():
            if b.is_floating_point():
                b.add_(torch.rand_like(b))
    if isinstance(m, nn.Embedding) and m.padding_idx is not None:
        m.weight.data[m.padding_idx] = 0


def check_module(program, name, case):
    m = case.module.train(case.train)
    perturb(m)
    inputs = [case.inputs() for _ in range(4)]
    ours = program.ask(what='module', name=name, steps=STEPS, state=dict(m.state_dict()), inputs=inputs)
    if 'error' in ours:
        return ours['error']
    optimizer = torch.optim.SGD(m.parameters(), lr=0.05) if list(m.parameters()) else None
    outputs, grads = [], []
    for step in range(STEPS):
        x = [t.clone().requires_grad_(t.is_floating_point()) if t is not None else None for t in inputs[step % 4]]
        y = case.run(m, *x)
        y = list(y) if isinstance(y, tuple) else [y]
        loss = sum((t - torch.arange(t.numel()).float().cos().view_as(t)).square().sum() / t.numel() for t in y)
        if loss.requires_grad:
            loss.backward()
        outputs += [t.detach().clone() for t in y] + [None] * (3 - len(y))
        grads += [t.grad if t is not None else None for t in x]
        if optimizer:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return {'outputs': worst(zip(ours['outputs'], outputs)), 'gradients': worst(zip(ours['grads'], grads)),
            'state': state_distance(ours['state'], m.state_dict())}


# --- optimizers

class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., "Symbolic discovery of optimization algorithms"."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group['betas']
            for p in group['params']:
                if p.grad is None:
                    continue
                state = self.state[p]
                m = state.setdefault('exp_avg', torch.zeros_like(p))
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p.sub_(group['lr'] * (update + group['weight_decay'] * p))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


O = torch.optim
OPTIMIZERS = {
    'SGD': (O.SGD, dict(lr=0.05)),
    'SGD_decay': (O.SGD, dict(lr=0.05, weight_decay=0.1, maximize=True)),
    'SGD_momentum': (O.SGD, dict(lr=0.05, momentum=0.9)),
    'SGD_dampening': (O.SGD, dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.01)),
    'SGD_nesterov': (O.SGD, dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)),
    'Adam': (O.Adam, dict()),
    'Adam_options': (O.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    'Adam_amsgrad': (O.Adam, dict(lr=0.02, amsgrad=True, maximize=True)),
    'AdamW': (O.AdamW, dict()),
    'AdamW_options': (O.AdamW, dict(lr=0.02, weight_decay=0.3, amsgrad=True)),
    'AdamW_no_decay': (O.AdamW, dict(lr=0.02, weight_decay=0, maximize=True)),
    'RMSprop': (O.RMSprop, dict()),
    'RMSprop_momentum': (O.RMSprop, dict(lr=0.003, momentum=0.9, weight_decay=0.01)),
    'RMSprop_centered': (O.RMSprop, dict(centered=True, alpha=0.9, maximize=True)),
    'RMSprop_all': (O.RMSprop, dict(lr=0.003, centered=True, momentum=0.5, eps=1e-4)),
    'Adagrad': (O.Adagrad, dict()),
    'Adagrad_options': (O.Adagrad, dict(lr=0.1, lr_decay=0.05, weight_decay=0.01, initial_accumulator_value=0.5,
                                        eps=1e-5, maximize=True)),
    'Lion': (Lion, dict()),
    'Lion_options': (Lion, dict(lr=0.003, betas=(0.95, 0.98), weight_decay=0.5)),
}


def make_optimizer(kind, options, params):
    """The last parameter is a group of its own with a tenth of the learning rate."""
    optimizer = kind(params[:-1], **options)
    optimizer.add_param_group({'params': params[-1:], 'lr': optimizer.defaults['lr'] / 10})
    if kind is O.Adagrad:  # initialises only the groups it was made with
        for p in params[-1:]:
            optimizer.state[p] = {'step': torch.tensor(0.0),
                                  'sum': torch.full_like(p, optimizer.defaults['initial_accumulator_value'])}
    return optimizer


def steps_of(optimizer, params, grads):
    values = []
    for step in grads:
        for p, g in zip(params, step):
            p.grad = None if g is None else g.clone()
        optimizer.step()
        values.append([p.detach().clone() for p in params])
    return values


def layout(v):
    """Keys and types of a state dict; ints and floats are the same to torch."""
    if isinstance(v, dict):
        return {k: layout(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return type(v)(layout(x) for x in v)
    if isinstance(v, torch.Tensor):
        return tuple(v.shape), v.dtype
    return float if isinstance(v, (int, float)) and not isinstance(v, bool) else type(v)


def tensors_of(state):
    return [t for s in state['state'].values() for t in s.values() if isinstance(t, torch.Tensor)]


def along(ours, theirs):
    """All parameters of a step are one vector."""
    return worst((torch.cat([p.flatten() for p in a]), torch.cat([p.flatten() for p in b])) for a, b in zip(ours, theirs))


def check_optimizer(program, name, case):
    kind, options = case
    start = [torch.randn(7, 5), torch.randn(33), torch.randn(()), torch.randn(2, 3, 4)]
    # now and then a parameter has no gradient
    grads = [[None if (s + 3 * i) % 17 == 5 or (i == 1 and s < 10) else torch.randn_like(p)
              for i, p in enumerate(start)] for s in range(STEPS)]
    params = [p.clone().requires_grad_() for p in start]
    optimizer = make_optimizer(kind, options, params)
    first_half = steps_of(optimizer, params, grads[:50])
    saved = wire_safe(optimizer.state_dict())
    theirs = first_half + steps_of(optimizer, params, grads[50:])
    ours = program.ask(what='optimizer', name=name, params=start, grads=grads)
    if 'error' in ours:
        return ours['error']
    if layout(ours['state']) != layout(wire_safe(optimizer.state_dict())):
        return f"state dict: {layout(ours['state'])}\n  torch: {layout(wire_safe(optimizer.state_dict()))}"
    # the second half again: ours from torch's state, torch from ours
    resumed = program.ask(what='optimizer', name=name, params=first_half[-1], grads=grads[50:], state=saved)
    half = program.ask(what='optimizer', name=name, params=start, grads=grads[:50])
    params = [p.clone().requires_grad_() for p in half['params'][-1]]
    optimizer = make_optimizer(kind, options, params)
    optimizer.load_state_dict(half['state'])
    continued = steps_of(optimizer, params, grads[50:])
    return {'parameters': along(ours['params'], theirs),
            'state': worst(zip(tensors_of(ours['state']), tensors_of(optimizer.state_dict()))),
            "from torch's state": along(resumed['params'], theirs[50:]),
            'torch from ours': along(continued, theirs[50:])}


# --- schedules

S = {
    'StepLR': lambda o: lrs.StepLR(o, 7, 0.5),
    'MultiStepLR': lambda o: lrs.MultiStepLR(o, [3, 20, 20, 50], 0.3),
    'ExponentialLR': lambda o: lrs.ExponentialLR(o, 0.97),
    'CosineAnnealingLR': lambda o: lrs.CosineAnnealingLR(o, 30, 0.001),
    'CosineAnnealingLR_short': lambda o: lrs.CosineAnnealingLR(o, 1),
    'CosineAnnealingWarmRestarts': lambda o: lrs.CosineAnnealingWarmRestarts(o, 5, 2, 0.002),
    'CosineAnnealingWarmRestarts_even': lambda o: lrs.CosineAnnealingWarmRestarts(o, 9),
    'LinearLR': lambda o: lrs.LinearLR(o, 0.1, 0.9, 25),
    'PolynomialLR': lambda o: lrs.PolynomialLR(o, 60, 2.5),
    'LambdaLR': lambda o: lrs.LambdaLR(o, [lambda t: 1 / (1 + t * 1 / 10), lambda t: 1 / (1 + t * 2 / 10)]),
    'OneCycleLR': lambda o: lrs.OneCycleLR(o, 0.3, 101),
    'OneCycleLR_options': lambda o: lrs.OneCycleLR(o, 0.3, 101, pct_start=0.4, anneal_strategy='linear', base_momentum=0.7,
                                                   max_momentum=0.9, div_factor=10, final_div_factor=100,
                                                   three_phase=True),
    'OneCycleLR_plain': lambda o: lrs.OneCycleLR(o, 0.3, 150, cycle_momentum=False),
    'CyclicLR': lambda o: lrs.CyclicLR(o, 0.01, 0.1, 11),
    'CyclicLR_triangular2': lambda o: lrs.CyclicLR(o, 0.01, 0.1, 8, 5, 'triangular2', base_momentum=0.6, max_momentum=0.8),
    'CyclicLR_exp_range': lambda o: lrs.CyclicLR(o, 0.01, 0.1, 8, mode='exp_range', gamma=0.99, cycle_momentum=False),
    'ReduceLROnPlateau': lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2),
    'ReduceLROnPlateau_options': lambda o: lrs.ReduceLROnPlateau(o, 'max', threshold=0.01, threshold_mode='abs',
                                                                 patience=0, min_lr=0.004, eps=0.001),
}
SCHEDULES = {**{name: ('SGD', [name]) for name in S},
             'OneCycleLR_Adam': ('Adam', ['OneCycleLR']),
             'OneCycleLR_options_Adam': ('Adam', ['OneCycleLR_options']),
             'LinearLR_then_StepLR': ('SGD', ['LinearLR', 'StepLR']),
             'ExponentialLR_MultiStepLR_CosineAnnealingLR': ('SGD', ['ExponentialLR', 'MultiStepLR', 'CosineAnnealingLR']),
             'StepLR_then_CyclicLR_plain': ('Adam', ['StepLR', 'CyclicLR_exp_range']),
             'LinearLR_ReduceLROnPlateau': ('SGD', ['LinearLR', 'ReduceLROnPlateau'])}


def wire_safe(v):
    """A copy without what only Python has: functions, weak references."""
    if isinstance(v, dict):
        return {k: wire_safe(x) for k, x in v.items() if not isinstance(x, types.MethodType)
                and type(x).__name__ != 'WeakMethod' and k != '_scale_fn_custom'}
    if isinstance(v, (list, tuple)):
        return type(v)(wire_safe(x) for x in v)
    return v.clone() if isinstance(v, torch.Tensor) else v


class Scheduled:
    def __init__(self, optimizer, names):
        p, q = [torch.zeros(1, requires_grad=True) for _ in range(2)], [torch.zeros(1, requires_grad=True) for _ in range(2)]
        kind = O.Adam if optimizer == 'Adam' else O.SGD
        self.optimizer = kind([{'params': p}, {'params': q, 'lr': 0.2}], lr=0.05)
        self.schedules = [S[name](self.optimizer) for name in names]

    def rates(self):
        return [x for g in self.optimizer.param_groups for x in (g['lr'], g['betas'][0] if 'betas' in g else g['momentum'])]

    def run(self, metrics):
        rates = self.rates()
        for metric in metrics:
            for s in self.schedules:
                s.step(metric) if isinstance(s, lrs.ReduceLROnPlateau) else s.step()
            rates += self.rates()
        return rates

    def save(self):
        return wire_safe(self.optimizer.state_dict()), [wire_safe(s.state_dict()) for s in self.schedules]

    def load(self, state, saved):
        self.optimizer.load_state_dict(state)
        for s, d in zip(self.schedules, saved):
            s.load_state_dict(d)


def rate_distance(ours, theirs):
    if len(ours) != len(theirs):
        return math.inf
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ours, theirs))


def check_schedule(program, name, case):
    optimizer, names = case
    metrics = [1 / (1 + 0.1 * i) + 0.05 * math.sin(i) if i < 40 else 0.3 + 0.01 * math.sin(i) for i in range(STEPS)]
    request = dict(what='schedule', optimizer=optimizer, names=names)
    torchs = Scheduled(optimizer, names)
    theirs = torchs.run(metrics[:50])
    saved = torchs.save()
    theirs += torchs.run(metrics[50:])[4:]
    ours = program.ask(**request, metrics=metrics)
    if 'error' in ours:
        return ours['error']
    resumed = program.ask(**request, metrics=metrics[50:], state=saved[0], saved=saved[1])
    if 'error' in resumed:
        return resumed['error']
    half = program.ask(**request, metrics=metrics[:50])
    again = Scheduled(optimizer, names)
    again.load(half['state'], half['saved'])
    return {'rates': rate_distance(ours['rates'], theirs),
            "from torch's state": rate_distance(resumed['rates'], theirs[-len(resumed['rates']):]),
            'torch from ours': rate_distance(again.run(metrics[50:]), theirs[-4 * 51:])}


# --- whole models

class Model:
    def __init__(self, make, batch, loss, optimizer, chaotic=False):
        self.make, self.batch, self.loss, self.optimizer, self.chaotic = make, batch, loss, optimizer, chaotic


def images(shape, classes):
    """Noise with a faint picture of its class: something to learn, but not at once."""
    centers = 0.1 * torch.randn(classes, *shape[1:])

    def batch():
        y = torch.randint(classes, shape[:1])
        return centers[y] + torch.randn(shape), y
    return batch


def sequences(steps, batch_size, features, classes):
    image = images((batch_size, steps, features), classes)

    def batch():
        x, y = image()
        return x.transpose(0, 1).contiguous(), y
    return batch


def tokens():
    """Each token is the one before plus one."""
    x = (torch.randint(50, (4, 1)) + torch.arange(17)) % 50
    return x[:, :-1].contiguous(), x[:, 1:].contiguous()


def token_cross_entropy(y, target):
    return F.cross_entropy(y.flatten(0, 1), target.flatten())


MODELS = {
    'mnist': Model(lambda: models.mnist(0), images((16, 1, 28, 28), 10), F.nll_loss,
                   lambda p: O.SGD(p, 0.01, 0.9)),
    'mlp': Model(models.mlp, images((32, 784), 10), F.cross_entropy, O.Adam),
    'resnet': Model(lambda: models.resnet(8), images((8, 3, 32, 32), 10), F.cross_entropy,
                    lambda p: O.SGD(p, 0.001, 0.9, weight_decay=5e-4), chaotic=True),
    'lstm': Model(lambda: models.LstmClassifier(16, 32, 5), sequences(12, 8, 16, 5), F.cross_entropy,
                  lambda p: O.RMSprop(p, 0.002)),
    'gpt': Model(lambda: models.Gpt(50, 32, 4, 2, 16), tokens, token_cross_entropy, O.AdamW),
}


def check_model(program, name, case):
    torch.manual_seed(7)
    m = case.make()
    batches = [case.batch() for _ in range(STEPS)]
    ours = program.ask(what='model', name=name, state=dict(m.state_dict()), batches=batches)
    if 'error' in ours:
        return ours['error']
    if list(ours['state']) != list(m.state_dict()):
        return f"keys {list(ours['state'])}, torch has {list(m.state_dict())}"
    output, exact = torch_losses(copy.deepcopy(m).double(), case, batches)
    compare = beyond_torch if case.chaotic else nearest_torch
    return {'outputs': distance(ours['outputs'][0], output), 'losses': compare(ours['losses'], m, case, batches, exact)}


def worst_difference(losses, exact):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, exact))


def nearest_torch(ours, m, case, batches, exact):
    """Where rounding decides a ReLU or a maximum, two ways part for good, both of them right. Which one torch takes depends on the
    last bits of the weights, and on the processor. So ours must be one that torch takes: in f64, or from weights that differ in
    those bits."""
    nearest = worst_difference(ours, exact)
    for seed in range(TORCH_RUNS):
        if nearest <= 1e-5:
            break
        nearest = min(nearest, worst_difference(ours, torch_losses(nudged(m, seed), case, batches)[1]))
    return nearest


def beyond_torch(ours, m, case, batches, exact):
    """Ways part so often that no two runs are the same: as far as torch in f32 is from torch in f64 we may be, a few times."""
    torch_drift = worst_difference(torch_losses(m, case, batches)[1], exact)
    return max(0, worst_difference(ours, exact) - 4 * torch_drift)


def nudged(m, seed):
    m, random = copy.deepcopy(m), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in m.parameters() if seed else ():
            p.mul_(1 + 2 ** -23 * torch.randint(-1, 2, p.shape, generator=random))
    return m


def torch_losses(m, case, batches):
    """The first output and the loss of each step."""
    optimizer, losses, dtype = case.optimizer(m.parameters()), [], next(m.parameters()).dtype
    for x, target in batches:
        out = m(x.to(dtype) if x.is_floating_point() else x)
        loss = case.loss(out, target)
        losses.append(loss.item())
        if len(losses) == 1:
            first_out = out.detach().clone()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return first_out, losses


TABLES = [  # name of the table, cases, check, tolerance of each result
    ('modules', MODULES, check_module, 1e-5),
    ('optimizers', OPTIMIZERS, check_optimizer, 1e-5),
    ('schedules', SCHEDULES, check_schedule, 1e-12),
    ('models', MODELS, check_model, 1e-5),
]


def main():
    program, wanted = Program(sys.argv[1]), sys.argv[2:]
    bad, checked = 0, 0
    for table, cases, check, tolerance in TABLES:
        for name, case in cases.items():
            if wanted and name not in wanted and table not in wanted:
                continue
            checked += 1
            result = check(program, name, case)
            if isinstance(result, str):
                print(f'{name}: {result}')
                bad += 1
                continue
            wrong = {k: v for k, v in result.items() if not v <= tolerance}
            if wrong or wanted:
                print(f'{name}: ' + ', '.join(f'{k} differ by {v:.2g}' for k, v in (wrong or result).items()))
            bad += bool(wrong)
    print(f'{checked} cases of nn and optim compared with torch, {bad} complaints')
    sys.exit(bool(bad))


main()
