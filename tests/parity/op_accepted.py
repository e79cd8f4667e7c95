"""What may differ from torch, and why: the only list. docs/parity.md shows it; op_parity.py compares the two.

An entry says for which operations, for which kind of difference (see Outcome in op_parity.py) and when it
holds; `when` gets the case and the text of the difference. An entry that explains nothing in a long run is
reported, so the list only shrinks.
"""
import re

from op_draw import INTS
from op_stand_in import NORMS

LOSSES = ('mse_loss l1_loss smooth_l1_loss huber_loss bce_loss bce_with_logits_loss kl_div_loss hinge_embedding_loss '
          'margin_ranking_loss cosine_embedding_loss').split()
CONVOLUTIONS = ('conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d', 'conv2d relu', 'conv2d max_pool2d', 'conv2d relu max_pool2d',
                'conv2d max_pool2d relu')
POOLS = ('max_pool2d', 'avg_pool2d', 'adaptive_avg_pool2d', 'adaptive_max_pool2d', 'interpolate')
RECURRENT = ('rnn_tanh', 'rnn_relu', 'gru', 'lstm')
PLACE_IN_VECTOR = ('elu', 'selu', 'relu6', 'hardtanh', 'hardswish')


class Accepted:
    def __init__(self, what, ops, kind, reason, when=lambda case, text: True):
        self.what, self.ops, self.kind, self.reason, self.when = what, tuple(ops), kind, reason, when
        self.count = 0

    def explains(self, case, outcome):
        return case.op in self.ops and re.fullmatch(self.kind, outcome.kind) and self.when(case, outcome.text)


def types(case):
    return {given.dtype for given in case.inputs}


def mixed(case):
    return len(types(case)) > 1


def has_integers(case):
    return bool(types(case) & set(INTS))


def says(pattern):
    return lambda case, text: re.search(pattern, text)


def has_equal(case):
    """Whether some numbers of an input are the same one."""
    return any(view[0] == 'expand' for given in case.inputs for view in given.views)


ACCEPTED = [
    # --- constants and formulas of torch
    Accepted('numbers near 0', ['elu', 'selu'], 'values|gradient', 'torch computes exp(x) - 1, which is 0; det expm1(x), which is x',
             lambda c, t: c.tags & {'tiny', 'mixed', 'wide', 'border'} or 'f64' in types(c)),
    Accepted('gradient of large numbers and of infinity', ['softsign'], 'gradient',
             'torch subtracts two nearly equal terms; det has the closed form',
             lambda c, t: c.tags & {'huge', 'inf', 'wide', 'mixed', 'border', 'nan'}),
    Accepted('gradient of NaN, and of hardswish at 3', PLACE_IN_VECTOR, 'gradient',
             'in torch it depends on the place in memory: vectors and the rest behind them are computed differently',
             lambda c, t: c.tags & {'nan', 'mixed', 'ties', 'border'} or 'bf16' in types(c)),
    Accepted('minus infinity', ['hardswish'], 'values', 'torch computes -inf * 0 = NaN; det the limit, 0',
             lambda c, t: c.tags & {'inf', 'mixed'}),
    Accepted('gradient of powers below 1 at 0', ['norm', 'norm_over'], 'gradient', 'torch computes 0 * inf = NaN; det 0'),
    Accepted('a product that overflows or vanishes on the way', ['prod', 'prod_over', 'cumprod'], 'values|gradient',
             'it depends on the order in which factors are multiplied',
             lambda c, t: c.tags & {'inf', 'huge', 'mixed', 'tiny', 'wide', 'border'}),
    Accepted('gradient where factors are infinite or NaN', ['prod', 'prod_over'], 'gradient',
             'torch divides the product by the factor; det multiplies the others',
             lambda c, t: c.tags & {'inf', 'nan', 'huge', 'mixed', 'tiny', 'wide'}),
    Accepted('gradient of equal numbers', ['std', 'std_over'], 'gradient', 'rounding decides whether the deviation is 0, which has no gradient',
             lambda c, t: has_equal(c)),
    Accepted('equal numbers', ['var', 'var_over', 'std', 'std_over', 'layer_norm', *(o for o in NORMS if 'batch_norm' in o)], 'values|gradient',
             'what is left of their distances from the mean is rounding alone', lambda c, t: has_equal(c)),
    Accepted('many numbers in f64', ['var', 'std', 'var_over', 'std_over'], 'values|gradient',
             'torch updates mean and variance with every number, which loses two more digits', lambda c, t: 'f64' in types(c) and c.long),
    Accepted('gradient of a single NaN', ['max_over', 'min_over'], 'gradient', 'over no dims: torch counts no largest element, det one',
             lambda c, t: 'nan' in t),
    Accepted('logits of 1e30', ['cross_entropy'], 'values|gradient', 'det keeps log(sum(exp(x))) as one number of f64, 16 digits',
             lambda c, t: c.tags & {'huge', 'mixed'}),
    Accepted('gradient of saturated units', RECURRENT, 'gradient', '1 - y * y has few digits where y is near 1',
             lambda c, t: 'wide' in c.tags),
    Accepted('bf16 numbers below 1e-38', ['matmul', 'linear', 'linear relu', 'linear gelu'], 'values|gradient',
             "the processor's instructions for bf16 take them for 0", lambda c, t: 'bf16' in types(c) and c.tags & {'tiny', 'mixed', 'border'}),
    Accepted('sums that overflow on the way', ['linear relu'], 'values', 'infinity or not: it depends on the order of the products',
             lambda c, t: c.tags & {'huge', 'mixed'} and 'det inf' in t),
    Accepted('scores that are all -infinity', ['attention'], 'gradient',
             'to det such a query sees no key and passes no gradient; in torch it is NaN', lambda c, t: 'inf' in c.tags),
    Accepted('gradient of vectors shorter than eps', ['cosine_similarity'], 'gradient',
             'torch goes on as if they were not divided by eps; det has the derivative of what is computed'),
    Accepted('probabilities near 0', ['bce_loss'], 'values|gradient', 'torch computes log(1 - x), which is 0; det log1p(-x), which is -x',
             lambda c, t: 'unit_border' in c.tags),
    Accepted('infinite logits', ['bce_with_logits_loss'], 'values|gradient',
             'infinity - infinity on one side or the other: NaN or infinity', lambda c, t: c.tags & {'inf', 'mixed'}),
    Accepted('large numbers that are nearly equal', ['layer_norm', 'group_norm'], 'values|gradient',
             'torch computes the variance as E[x * x] - E[x] * E[x], which is rounding alone; det from the distances',
             lambda c, t: c.tags & {'huge', 'wide', 'mixed', 'border'}),
    Accepted('gradient of infinite inputs', ['linear relu'], 'gradient',
             "NaN or infinity: in torch it depends on the number of threads", lambda c, t: c.tags & {'inf', 'mixed'}),
    Accepted('infinity next to a pixel', ['interpolate'], 'values|gradient',
             'whether 0 * infinity counts depends on how positions are rounded', lambda c, t: c.tags & {'inf', 'mixed'}),
    Accepted('nearest pixel in bf16', ['interpolate'], 'values|gradient', 'torch computes positions in bf16',
             lambda c, t: 'bf16' in types(c)),
    Accepted('gradient of units that are 0 but for rounding, or of pixels that are equal but for it',
             [o for o in (*CONVOLUTIONS, *NORMS, 'linear relu') if 'relu' in o or 'pool' in o], 'gradient',
             'rounding decides which of them get it; the test moves them by a few roundings and sees it change', lambda c, t: c.undecided),
    Accepted('NaN and infinity', CONVOLUTIONS, 'values|gradient',
             "Winograd's method spreads them to their neighbours; torch multiplies padding by them in some places",
             lambda c, t: 'nan' in t and c.tags & {'nan', 'inf', 'mixed'}),
    Accepted('windows of minus infinity and padding', ['max_pool1d', 'max_pool3d', 'max_pool2d dilated'], 'gradient',
             'padding is minus infinity too, and may be the one that is picked', lambda c, t: 'det 0,' in t),
    Accepted('gradient of a target of 0, if the input is empty', ['kl_div_loss'], 'gradient', 'torch computes 0 * NaN; det 0',
             lambda c, t: any(given.base.size == 0 for given in c.inputs)),
    Accepted('padding a dim away', ['pad'], 'refused by torch', 'torch refuses sizes that are 0 on the way',
             says('negative output size')),

    # --- types
    Accepted('indices of other types, if there are none', ['gather', 'scatter_add', 'index_select', 'embedding', 'embedding_bag'], 'refused by det',
             'torch does not look at the type of nothing', says('wants i64')),
    Accepted('integers', ('conv2d relu', 'conv3d'), 'refused by torch', 'torch has no loop for them with dilation, or in 3-d',
             says("(slow_conv|columns3d).* not implemented for '(Long|Int|Byte|Bool)'")),
    Accepted('a single bool', ['kthvalue', 'median_along'], 'refused by det', 'torch has no loop for bool, but does not look at it here',
             says('not for bool')),
    Accepted('integers', CONVOLUTIONS + POOLS + RECURRENT + NORMS + ('attention', 'dropout', 'dropout_channels', 'softmax',
             'log_softmax', 'cosine_similarity', 'matmul', 'einsum', 'linear', 'linear relu', 'linear gelu', *LOSSES), 'refused by det',
             'operations of networks are for floats; torch has some of them for integers',
             lambda c, t: has_integers(c) and 'DET_EDTYPE' in t or re.search('(i64|i32|u8|bool), wants floats', t)),
    Accepted('integers', ['hinge_embedding_loss'], 'type|values|refused by torch', 'torch rounds the margin to an integer; det gives f32',
             lambda c, t: has_integers(c)),
    Accepted('targets of u8', ['margin_ranking_loss'], 'values|gradient', 'torch negates them in u8: -1 is 255',
             lambda c, t: has_integers(c)),
    Accepted('pos_weight of integers', ['bce_with_logits_loss'], 'values|gradient', 'torch computes 0 - 1 = 255 of u8',
             lambda c, t: has_integers(c)),
    Accepted('different types', (*LOSSES, *NORMS, *CONVOLUTIONS, 'matmul', 'linear', 'linear relu', 'linear gelu', 'attention',
             'einsum', 'prelu', 'soft_margin_loss', *RECURRENT),
             'type|refused by torch|refused by det',
             'det promotes or refuses; torch does either, takes the type of one argument, or fails in backward',
             lambda c, t: mixed(c)),
    Accepted('running statistics of a wider type than the input', [o for o in NORMS if 'batch_norm' in o], 'values',
             'det keeps ten digits of them, torch as many as the input has', lambda c, t: mixed(c) and re.match('[mv] differs', t)),
    Accepted('0 and -0 in bf16', ['unique'], 'shape|values', 'they are equal; torch counts them as two', lambda c, t: 'bf16' in types(c)),
    Accepted('u8 as a condition', ['where', 'masked_fill'], 'refused by det', 'torch warns that it will refuse it', says('wants bool')),

    # --- shapes
    Accepted('weights of other shapes', ('linear', 'linear relu', 'linear gelu', 'nll_loss', 'cross_entropy', *NORMS, *RECURRENT), 'refused by det',
             'torch looks at the number of elements only, or broadcasts', says('weight is|bias is|running_|w_[ih]h is')),
    Accepted('a vector of values', ['attention'], 'refused by det', 'det wants matrices', says('attention: q is .*, v is')),
    Accepted('empty batch', ['pixel_unshuffle', 'pixel_shuffle'], 'shape|refused by torch', 'torch takes the shape of the input, or fails in backward',
             says('\\(0, |\\[0, |divisible|memory format')),
    Accepted('empty batch', ['avg_pool2d'], 'refused by torch', "torch's backward fails", says('optional 0 dim batch size')),
    Accepted('an empty vector', ['tril', 'triu', 'concat'], 'refused by det', 'torch does not look at the dims of nothing',
             says('wants matrices|is not in -1')),
    Accepted('windows larger than the input', ['max_pool1d'], 'refused by det', 'torch gives an empty result; later versions refuse too',
             says('is larger than the input')),
    Accepted('targets of another shape', ['multilabel_soft_margin_loss', 'soft_margin_loss'], 'refused by det', 'torch broadcasts them', says('wants two of|wants one shape')),
    Accepted('a group of one number', ['group_norm'], 'refused by torch', 'it has no variance; det gives the bias',
             says('more than 1 value')),
    Accepted('empty batch', ['group_norm', 'conv_transpose2d', 'batch_norm max_pool2d', 'batch_norm relu max_pool2d'],
             'refused by torch|refused by det', "torch's backward fails, or torch checks less or more", says('batch size|output_padding|empty result')),
    Accepted('a number as an index of a vector, or the reverse', ['gather', 'scatter_add', 'nll_loss'], 'refused by det',
             'torch takes a number for a vector of one element', says('does not fit|wants \\(N, classes')),
    Accepted('windows larger than the volume', ['avg_pool3d'], 'refused by torch', 'torch does not count the padding here',
             says('smaller than kernel size')),
    Accepted('a sequence without a batch', RECURRENT, 'refused by det', 'det wants (T, B, I); torch broadcasts what it gets',
             says('wants \\(T, B, I\\)')),
    Accepted('five dims', ['adaptive_avg_pool2d', 'adaptive_max_pool2d'], 'refused by det',
             'det wants (N, C, H, W) or (C, H, W)', says('wants \\(N, C, H, W\\)')),
]

NOT_DRAWN = [
    ('index_select of a number by several indices', 'torch writes behind its result'),
    ('clamp and hardtanh of u8 between negative limits', 'torch takes -1 for 255'),
    ('fmod and remainder of integers by -1', 'torch crashes if the other one is the smallest integer; det gives 0'),
    ('dilated pooling where a window lies in the padding', 'torch writes outside of its memory'),
    ('unique of NaN', 'the order in torch is undefined'),
    ('clamp between NaN', 'torch gives NaN, det ignores the limit'),
    ('NaN and infinity in weights of convolutions and norms, and in what attention hides',
     '0 times NaN: it depends on how the sum is made whether it counts'),
    ('conversion of floats that do not fit the integer type', 'C++ leaves the result undefined; that det does not crash is checked'),
    ('rnn_relu in bf16, gradients', 'rounding decides which units are on'),
]


def markdown():
    lines = ['| operations | what | reason |', '|---|---|---|']
    lines += [f"| {', '.join(e.ops)} | {e.what} | {e.reason} |" for e in ACCEPTED]
    lines += ['', '| not drawn | reason |', '|---|---|']
    lines += [f'| {what} | {reason} |' for what, reason in NOT_DRAWN]
    return '\n'.join(lines) + '\n'
