// det/losses.h: losses. Names, arguments, defaults and results are torch's; how they are called is
// in det/ops.h.
#pragma once

#include "det/tensor.h"

typedef enum det_reduction {
    DET_REDUCTION_MEAN,
    DET_REDUCTION_SUM,
    DET_REDUCTION_NONE
} det_reduction;

typedef struct det_loss_opts {
    det_reduction reduction;
    det_tensor *weight;     // per class (nll, cross_entropy) or per element (bce)
    det_tensor *pos_weight; // bce_with_logits
    bool use_ignore_index;  // nll, cross_entropy: targets equal to ignore_index do not count
    int64_t ignore_index;
    double label_smoothing; // cross_entropy
    double margin;          // margin losses; 0: 1 for hinge embedding, 0 for the others
    double beta;            // smooth_l1, huber (delta); 0: 1
    bool log_target;        // kl_div
    bool batch_mean;        // kl_div: sum divided by the batch size
    const char *place;      // of the call, for warnings; the macros fill it in
} det_loss_opts;

#define DET_LOSS_OPTS(...) DET_OPTS(det_loss_opts, .place = DET_PLACE, __VA_ARGS__)

// Input and target have one shape. Other shapes that broadcast are computed with a warning; bce
// refuses them, as torch. Targets that are classes are i64, i32 or u8.
// clang-format off
#define DET_LOSSES(F)                                                                              \
    F(mse_loss) F(l1_loss) F(smooth_l1_loss) F(huber_loss) F(nll_loss) F(cross_entropy) F(bce_loss) \
    F(bce_with_logits_loss) F(kl_div_loss) F(hinge_embedding_loss) F(soft_margin_loss)              \
    F(multilabel_margin_loss) F(multilabel_soft_margin_loss)
// clang-format on
#define DET_DECLARE_LOSS(name) \
    DET_API det_tensor *det_##name##_with(det_tensor *input, det_tensor *target, det_loss_opts o);
DET_LOSSES(DET_DECLARE_LOSS)
#define det_mse_loss(x, y, ...) det_mse_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_l1_loss(x, y, ...) det_l1_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_smooth_l1_loss(x, y, ...) det_smooth_l1_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_huber_loss(x, y, ...) det_huber_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_nll_loss(x, y, ...) det_nll_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_cross_entropy(x, y, ...) det_cross_entropy_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_bce_loss(x, y, ...) det_bce_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_bce_with_logits_loss(x, y, ...) \
    det_bce_with_logits_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_kl_div_loss(x, y, ...) det_kl_div_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_hinge_embedding_loss(x, y, ...) \
    det_hinge_embedding_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_soft_margin_loss(x, y, ...) det_soft_margin_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_multilabel_margin_loss(x, y, ...) \
    det_multilabel_margin_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_multilabel_soft_margin_loss(x, y, ...) \
    det_multilabel_soft_margin_loss_with(x, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_margin_ranking_loss(x1, x2, y, ...) \
    det_margin_ranking_loss_with(x1, x2, y, DET_LOSS_OPTS(__VA_ARGS__))
#define det_cosine_embedding_loss(x1, x2, y, ...) \
    det_cosine_embedding_loss_with(x1, x2, y, DET_LOSS_OPTS(__VA_ARGS__))
DET_API det_tensor *det_margin_ranking_loss_with(det_tensor *x1, det_tensor *x2, det_tensor *y,
                                                 det_loss_opts o);
DET_API det_tensor *det_cosine_embedding_loss_with(det_tensor *x1, det_tensor *x2, det_tensor *y,
                                                   det_loss_opts o);

typedef struct det_multi_margin_opts {
    det_reduction reduction;
    det_tensor *weight; // per class
    double p, margin;   // p: 1 or 2
} det_multi_margin_opts;
#define det_multi_margin_loss(x, y, ...) \
    det_multi_margin_loss_with(x, y,     \
                               DET_OPTS(det_multi_margin_opts, .p = 1, .margin = 1, __VA_ARGS__))
DET_API det_tensor *det_multi_margin_loss_with(det_tensor *x, det_tensor *y,
                                               det_multi_margin_opts o);

typedef struct det_triplet_opts {
    det_reduction reduction;
    double margin, p, eps;
    bool swap; // the negative is as far as it is from the nearer one of anchor and positive
} det_triplet_opts;
#define det_triplet_margin_loss(anchor, positive, negative, ...) \
    det_triplet_margin_loss_with(                                \
        anchor, positive, negative,                              \
        DET_OPTS(det_triplet_opts, .margin = 1, .p = 2, .eps = 1e-6, __VA_ARGS__))
DET_API det_tensor *det_triplet_margin_loss_with(det_tensor *anchor, det_tensor *positive,
                                                 det_tensor *negative, det_triplet_opts o);

typedef struct det_poisson_nll_opts {
    det_reduction reduction;
    bool log_input; // the input is the logarithm of the rate
    bool full;      // with Stirling's formula for log(target!)
    double eps;     // added to the rate before its logarithm
} det_poisson_nll_opts;
#define det_poisson_nll_loss(x, y, ...) \
    det_poisson_nll_loss_with(          \
        x, y, DET_OPTS(det_poisson_nll_opts, .log_input = true, .eps = 1e-8, __VA_ARGS__))
DET_API det_tensor *det_poisson_nll_loss_with(det_tensor *x, det_tensor *y, det_poisson_nll_opts o);

typedef struct det_gaussian_nll_opts {
    det_reduction reduction;
    bool full;  // with the constant
    double eps; // the smallest variance
} det_gaussian_nll_opts;
#define det_gaussian_nll_loss(x, y, var, ...) \
    det_gaussian_nll_loss_with(x, y, var, DET_OPTS(det_gaussian_nll_opts, .eps = 1e-6, __VA_ARGS__))
DET_API det_tensor *det_gaussian_nll_loss_with(det_tensor *x, det_tensor *y, det_tensor *var,
                                               det_gaussian_nll_opts o);

// The norm p of a - b + eps along the last dim.
DET_API det_tensor *det_pairwise_distance(det_tensor *a, det_tensor *b, double p, double eps,
                                          bool keepdim);
DET_API det_tensor *det_cosine_similarity(det_tensor *a, det_tensor *b, int dim, double eps);
