"""Calls that torch 1.13 refuses or fails in, although what they mean is clear: det's result is compared with
that of the same call on converted inputs. A stand-in says which refusal it is for and what is done to the inputs
before the call and to the results behind it. Without a refusal it is for calls in which torch loses digits or
overflows on the way: if the two differ, det is compared with torch's functions put together differently. The values
must agree as those of any other case.
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
        self.note, self.ops, self.before, self.after = note, ops, before, after
        self.refusal = re.compile(refusal) if refusal else None
        self.without = without  # types that no input has

    def serves(self, case, refusal):
        wanted = case.op in self.ops and not any(given.dtype in self.without for given in case.inputs)
        return wanted and (self.refusal.search(refusal) if self.refusal and refusal else self.refusal is refusal)


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


def argument(case, default):
    """The text of the last argument of torch's call."""
    found = re.search(r'\(x, ([^,]*)\)$', case.torch[0])
    return found[1] if found else default


def elu_by_expm1(case):
    alpha, scale = (1.6732632423543772, 1.0507009873554805) if case.op == 'selu' else (argument(case, '1'), 1)
    return [f'y = {scale} * torch.where(x > 0, x, {alpha} * torch.expm1(x.clamp(max=0)))']


def gelu_by_sigmoid(case):
    return ['y = x * torch.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))']


def margins_by_log1p(case):
    reduction = re.search("reduction='(.*)'", case.torch[0])[1]
    return ['m = -t.to(x.dtype) * x', 'low, high = m.clamp(max=0), m.clamp(min=0)',
            'y = torch.where(m > 0, m + torch.log1p(torch.exp(-high)), torch.log1p(torch.exp(low)))',
            *([] if reduction == 'none' else [f'y = y.{reduction}()'])]


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

    StandIn('on arguments of one type', ('pow', 'atan2'), None, numbers_of_result_type),
    StandIn('on f32 instead of integers', ('softsign',), None, lambda case: converted(case, INTS, 'float()')),
    StandIn('by expm1', ('elu', 'selu'), None, lambda case: [], elu_by_expm1),
    StandIn('by sigmoid', ('gelu_tanh',), None, lambda case: [], gelu_by_sigmoid),
    StandIn('by log1p', ('soft_margin_loss',), None, lambda case: [], margins_by_log1p),
]


def stand_in_for(case, refusal):
    """The one for this refusal, or for none; or None."""
    return next((s for s in STAND_INS if s.serves(case, refusal)), None)
