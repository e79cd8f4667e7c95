// det/data.h: datasets, transforms and the loader.
//
//     det_dataset *train = det_dataset_mnist("mnist", .train = true,
//         .transform = det_transform_compose(det_transform_to_tensor(),
//                                            det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081))));
//     det_loader *loader = det_loader_new(train, .batch_size = 64, .shuffle = true);
//     det_iter *it = det_loader_iter(loader);
//     for (const det_value *batch; (batch = det_iter_next(it, &err));)
//         train_on(det_batch_at(batch, 0), det_batch_at(batch, 1));
//     det_iter_free(it);
//
// A sample is a tree (det/value.h) of tensors and numbers; a batch is the same tree with the
// samples stacked along a new first dim: ints become i64, floats f32, strings a list. The order of
// samples is a pure function of (seed, epoch, index): any position is reached in O(1), and the same
// order comes out for any number of workers, any prefetch depth and any number of ranks that share
// a global batch.
//
// Making a dataset, transform or loader can fail for bad arguments and files: then the sticky error
// is set (det_check), NULL is returned and what was handed over is freed; NULL is accepted
// everywhere.
//
// Ownership: a loader owns its dataset, a dataset its transforms; iterators are freed before their
// loader. Datasets, samplers and transforms are used by several threads at once and must not change
// after they were made; a tensor that a dataset keeps is not put into a sample, but a copy
// (det_from), because references are counted by one thread at a time.
#pragma once

#include "det/tensor.h"

// A list of numbers, as two arguments.
#define DET_REALS(...) \
    (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

// --- datasets

typedef struct det_dataset det_dataset;

// What a random transform may use: numbers that depend on these three alone. Inside of a loader
// det_rand and its like depend on nothing else either.
typedef struct det_draw {
    uint64_t seed, epoch;
    int64_t index; // place of the sample in the epoch
} det_draw;
DET_API double det_draw_unit(const det_draw *d, int n);   // the n-th uniform number of this sample
DET_API double det_draw_normal(const det_draw *d, int n); // the n-th standard normal number

typedef struct det_dataset_ops {
    int64_t (*length)(void *self); // asked once
    // One sample, handed over to the caller; tensors made in it belong to a scope that ends
    // afterwards. NULL and err filled on failure.
    det_value *(*item)(void *self, int64_t index, const det_draw *draw, det_err *err);
    void (*free)(void *self); // optional
} det_dataset_ops;

// A dataset of the user's own. self is handed over if ops->free is given.
DET_API det_dataset *det_dataset_new(const det_dataset_ops *ops, void *self);
DET_API void det_dataset_free(det_dataset *d);
DET_API int64_t det_dataset_length(const det_dataset *d);
// draw may be NULL: all zero. Errors name the index.
DET_API det_value *det_dataset_item(const det_dataset *d, int64_t index, const det_draw *draw,
                                    det_err *err);

typedef struct det_transform det_transform;

typedef struct det_dataset_opts {
    bool train;               // MNIST, CIFAR-10: the training files
    det_transform *transform; // of the image; handed over; NULL: to_tensor
} det_dataset_opts;

// Samples (t[0][i], t[1][i], ...), up to 32 tensors; references are taken, so the content must not
// change. A single tensor gives (t[i],).
DET_API det_dataset *det_dataset_tensors(det_tensor *const *t, int n);
// idx files as distributed, plain or .gz, in dir: (image (1, 28, 28), label i64).
#define det_dataset_mnist(dir, ...) det_dataset_mnist_with(dir, (det_dataset_opts){__VA_ARGS__})
// Binary version, data_batch_1.bin ... in dir: (image (3, 32, 32), label).
#define det_dataset_cifar10(dir, ...) det_dataset_cifar10_with(dir, (det_dataset_opts){__VA_ARGS__})
// One folder per class below dir, JPEG and PNG files in it: (image (3, H, W), class).
#define det_dataset_image_folder(dir, ...) \
    det_dataset_image_folder_with(dir, (det_dataset_opts){__VA_ARGS__})
DET_API det_dataset *det_dataset_mnist_with(const char *dir, det_dataset_opts opts);
DET_API det_dataset *det_dataset_cifar10_with(const char *dir, det_dataset_opts opts);
DET_API det_dataset *det_dataset_image_folder_with(const char *dir, det_dataset_opts opts);
DET_API const char *det_dataset_class_name(const det_dataset *d,
                                           int64_t label); // image folder; else NULL

typedef struct det_csv_opts {
    char separator;     // 0: comma
    bool no_header;     // columns are then named "0", "1", ...
    const char *target; // this column apart, as i64 if all its values are integers; NULL: none
} det_csv_opts;
// RFC 4180; numbers only. Samples are (features f32 (columns,), target) or (features,).
#define det_dataset_csv(path, ...) det_dataset_csv_with(path, (det_csv_opts){__VA_ARGS__})
DET_API det_dataset *det_dataset_csv_with(const char *path, det_csv_opts opts);

// Samples index[0], index[1], ... of d; all of d[0], then all of d[1], ... Take what they are
// given.
DET_API det_dataset *det_dataset_subset(det_dataset *d, const int64_t *index, int64_t n);
DET_API det_dataset *det_dataset_concat(det_dataset *const *d, int n);

// --- transforms: images are u8 or f32 (H, W, C) before to_tensor, f32 (C, H, W) after it

DET_API det_transform *det_transform_to_tensor(void); // u8 becomes 0 .. 1
DET_API det_transform *det_transform_normalize(const double *mean, int n_mean, const double *std,
                                               int n_std);
DET_API det_transform *det_transform_random_resized_crop(
    int64_t size); // torch's scale and ratio ranges
DET_API det_transform *det_transform_resize(int64_t h, int64_t w);
DET_API det_transform *det_transform_center_crop(int64_t size);
DET_API det_transform *det_transform_random_crop(int64_t size, int64_t padding);
DET_API det_transform *det_transform_random_horizontal_flip(double p);
DET_API det_transform *det_transform_fn(det_tensor *(*apply)(det_tensor *image,
                                                             const det_draw *draw, void *user),
                                        void *user);
#define det_transform_compose(...)             \
    det_transform_compose_of(                  \
        (det_transform *const[]){__VA_ARGS__}, \
        (int)(sizeof((det_transform *const[]){__VA_ARGS__}) / sizeof(det_transform *)))
DET_API det_transform *det_transform_compose_of(det_transform *const *t, int n);
DET_API void det_transform_free(det_transform *t);

// --- samplers: sequences of indices. Only needed to replace the loader's own order.

typedef struct det_sampler det_sampler;

typedef struct det_sampler_ops {
    int64_t (*length)(void *self);                            // indices of one epoch
    int64_t (*at)(void *self, uint64_t epoch, int64_t index); // pure: the index-th of that epoch
    void (*free)(void *self);                                 // optional
} det_sampler_ops;

DET_API det_sampler *det_sampler_new(const det_sampler_ops *ops, void *self);
DET_API det_sampler *det_sampler_sequential(int64_t n);
DET_API det_sampler *det_sampler_shuffle(int64_t n, uint64_t seed); // any position in O(1)
// The shuffle of numpy.random.RandomState(seed), going on from epoch to epoch (what Determined's
// ReproducibleShuffleSampler does): O(n) per epoch, for comparisons.
DET_API det_sampler *det_sampler_numpy_shuffle(int64_t n, uint64_t seed);
DET_API det_sampler *det_sampler_weighted(const double *weights, int64_t n, int64_t n_samples,
                                          uint64_t seed); // with replacement
DET_API void det_sampler_free(det_sampler *s);
DET_API int64_t det_sampler_length(const det_sampler *s);
DET_API int64_t det_sampler_at(const det_sampler *s, uint64_t epoch, int64_t index); // -1: none

// --- loader

// A batch from samples, which stay the loader's; called in the thread that made them.
typedef det_value *(*det_collate_fn)(det_value *const *samples, int n, void *user, det_err *err);

typedef struct det_loader_opts {
    int64_t batch_size; // 0: 1
    bool shuffle;
    bool drop_last;
    int num_workers;        // threads that prepare batches; 0: the caller
    int prefetch;           // batches prepared ahead; 0: 2 per worker
    det_sampler *sampler;   // instead of shuffle; handed over
    det_collate_fn collate; // NULL: stack
    void *collate_user;
    uint64_t seed;       // of the order; a trial context sets it if it is 0
    bool borrow_dataset; // it stays the caller's and must outlive the loader
} det_loader_opts;

// Takes the dataset. A contradiction in the options is an error that names both. NULL on failure
// (the dataset is freed then too).
#define det_loader_new(dataset, ...) det_loader_new_with(dataset, (det_loader_opts){__VA_ARGS__})
DET_API det_loader *det_loader_new_with(det_dataset *dataset, det_loader_opts opts);
DET_API void det_loader_free(det_loader *l);
DET_API int64_t det_loader_length(const det_loader *l);  // batches of an epoch, not sharded
DET_API int64_t det_loader_samples(const det_loader *l); // of an epoch, before drop_last
DET_API int64_t det_loader_batch_size(const det_loader *l);
DET_API uint64_t det_loader_seed(const det_loader *l);
DET_API void det_loader_set_seed(det_loader *l, uint64_t seed); // while no iterator is open
DET_API det_dataset *det_loader_dataset(const det_loader *l);   // borrowed

// The batches of all ranks are one sequence, epoch behind epoch if they repeat; rank r of n has
// batches r, r + n, r + 2n, ... of it. So n ranks with batches of b samples see, step by step, what
// one rank with batches of n * b sees, if n * b divides the epoch; if not, samples still come in
// the same order, but from the end of the first epoch on steps are cut elsewhere.
//
// A position is all the state there is: an iterator made with .skip = det_iter_position(old), and
// the same options otherwise, goes on exactly where the old one is.
#define det_loader_iter(l, ...) det_loader_iter_with(l, (det_iter_opts){__VA_ARGS__})
DET_API det_iter *det_loader_iter_with(det_loader *l, det_iter_opts opts); // several may be open
// The next batch, valid until the next call (a tensor kept with det_ref stays valid); NULL at the
// end (err clear) or on failure (err filled: which sample, which file; further calls say the same).
DET_API const det_value *det_iter_next(det_iter *it, det_err *err);
DET_API int64_t det_iter_length(const det_iter *it);   // batches of an epoch for this rank
DET_API int64_t det_iter_position(const det_iter *it); // batches given out, skipped ones included
DET_API void det_iter_free(det_iter *it);

// --- batches

// Tensors of a batch: by position, by key; item 0 of a batch that is a tensor is that tensor.
// Missing: the sticky error names what is there.
DET_API det_tensor *det_batch_at(const det_value *batch, int index);
DET_API det_tensor *det_batch_get(const det_value *batch, const char *key);
// Samples in a batch: the size of the first dim of the first tensor in the tree. Negative code if
// none.
DET_API int64_t det_batch_length(const det_value *batch, det_err *err);
