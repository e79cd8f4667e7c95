"""Calls that torch 1.13 refuses or fails in, although what they mean is clear: det's result is compared with
that of the same call on converted inputs. A stand-in says which refusal it is for and what is done to the inputs
before the call and to the results behind it. The values must agree as those of any other case.
"""
import re

from op_draw import INTS

TAKES_INDICES = 'gather scatter_add one_hot nll_loss cross_entropy index_select embedding index index_put'.split()
LOSSES = 'mse_loss l1_loss smooth_l1_loss huber_loss bce_loss bce_with_logits_loss margin_ranking_loss'.split()
NORMS = ('batch_norm', 'batch_norm relu', 'batch_norm add', 'batch_norm add relu', 'batch_norm max_pool2d',
         'batch_norm relu max_pool2d', 'layer_norm', 'group_norm', 'rms_norm')
USED_SOURCE = ['s = s[tuple(slice(0, n) for n in i.shape)]']


class StandIn:
    def __init__(self, note, ops, refusal, before, after=lambda case: [], without=()):
        self.note, self.ops, self.refusal, self.before, self.after = note, ops, re.compile(refusal), before, after
        self.without = without  # types that no input has

    def serves(self, case, refusal):
        wanted = case.op in self.ops and not any(given.dtype in self.without for given in case.inputs)
        return wanted and self.refusal.search(refusal)


def converted(case, wanted, conversion):
    """Lines that convert the inputs of the wanted types."""
    return [f'{given.name} = {given.name}.{conversion}' for given in case.inputs if given.dtype in wanted]


def of_one_type(case):
    """Lines that give all inputs the type that they have in common."""
    names = [given.name for given in case.inputs]
    common = names[0] + '.dtype'
    for name in names[1:]:
        common = f'torch.promote_types({common}, {name}.dtype)'
    return [f'common = {common}'] + [f'{name} = {name}.to(common)' for name in names]


def numbers_of_result_type(case):
    return ['common = torch.result_type(a, b)', 'a, b = a.to(common), b.to(common)']


def parameters(case):
    return [given for given in case.inputs if given.name in 'wbmv']


def of_the_type_of_x(case):
    return [f'{given.name} = {given.name}.to(x.dtype)' for given in parameters(case)]


def types_back(case):
    return [f'{given.name} = {given.name}.to({given.dtype})' for given in parameters(case)]


def infinite_slope(case):
    """What torch means where it divides by 0 numbers: the gradient times infinity, for all elements."""
    factor = 'INF' if case.op == 'var' else 'INF / (2 * value)'
    return ['value, total = float(y), x.sum()', f'total.register_hook(lambda g: g * ({factor}))',
            'y = y.detach() + (total - total.detach())']


def group_norm_with_ones(case):
    """The call with a weight where there is none."""
    ones = 'torch.ones(x.shape[1], dtype=x.dtype)'
    call = case.torch[0].removeprefix('y = ')
    head, w, rest = re.fullmatch(r'(F.group_norm\(x, \d+, )(\w+)(, .*)', call).groups()
    return f"{head}{ones + '.requires_grad_()' if w == 'None' else w}{rest}"


STAND_INS = [
    StandIn('on u8 instead of bool', ('argmax', 'argmin', 'topk'), "'Bool'", lambda case: converted(case, ('bool',), 'byte()'),
            lambda case: ['y = y.bool()'] if case.op == 'topk' else []),
    StandIn('on indices of i64 instead of i32', TAKES_INDICES, 'Expected dtype int64|index tensor|scalar type Long|tensors used as indices',
            lambda case: [line for line in converted(case, ('i32',), 'long()') if line[0] in 'ijkt'] + USED_SOURCE * (case.op == 'scatter_add')),
    StandIn('with a gradient of the right shape', ('var', 'std'), r'invalid gradient .* got \[\]', lambda case: [], infinite_slope),
    StandIn('on the part of the source that is used', ('scatter_add',), 'invalid gradient',
            lambda case: USED_SOURCE),
    StandIn('given a weight of ones', ('group_norm',), 'does not have a device', lambda case: [],
            lambda case: [f'y = {group_norm_with_ones(case)}']),
    StandIn('on f64 instead of integers', ('conv1d', 'conv2d'), "slow_conv.* not implemented for '(Long|Int|Byte|Bool)'",
            lambda case: converted(case, INTS, 'double()'), lambda case: [f'y = y.long().to({case.inputs[0].dtype})']),
    StandIn('without its backward, of nothing', ('adaptive_avg_pool2d', 'adaptive_max_pool2d'), 'non-zero size for non-batch',
            lambda case: [], lambda case: ['y = y.detach() + 0 * x.sum()']),
    StandIn("on parameters of the input's type", NORMS, 'INTERNAL ASSERT|mixed dtype|scalar type', of_the_type_of_x, types_back,
            INTS),
    StandIn('on arguments of one type', LOSSES, 'Found dtype|bool tensor', of_one_type),
    StandIn('on arguments of one type', ('pow', 'atan2'), 'bool tensor', numbers_of_result_type),
]


def stand_in_for(case, refusal):
    """The one for this refusal, or None."""
    return next((s for s in STAND_INS if s.serves(case, refusal)), None)
