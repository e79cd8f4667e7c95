// Program bench-loader: loads batches of 64 shuffled, normalised images for some seconds and prints
// one line of JSON.
//   bench-loader WORKERS SECONDS
// The images are 60000 of 28 x 28 bytes, as MNIST. loader.py is the torch side.
#include "det/data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N = 60000, SIDE = 28, BATCH = 64 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_idx(const char *dir, const char *name, const unsigned char *header,
                      size_t n_header, size_t n)
{
    char path[128];
    unsigned char *bytes = malloc(n_header + n);
    memcpy(bytes, header, n_header);
    for (size_t i = 0; i < n; i++)
        bytes[n_header + i] = (unsigned char)(i * 2654435761u >> 24);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n_header + n, f) != n_header + n || fclose(f)) exit(1);
    free(bytes);
}

static det_dataset *make_dataset(void)
{
    static const unsigned char images[] = {0, 0, 8, 3,    0, 0, N >> 8, N & 255,
                                           0, 0, 0, SIDE, 0, 0, 0,      SIDE};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, N >> 8, N & 255};
    char dir[] = "/tmp/bench-loader-XXXXXX", command[64];
    if (!mkdtemp(dir)) exit(1);
    write_idx(dir, "train-images-idx3-ubyte", images, sizeof images, (size_t)N * SIDE * SIDE);
    write_idx(dir, "train-labels-idx1-ubyte", labels, sizeof labels, N);
    det_transform *norm = det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081));
    det_transform *t = det_transform_compose(det_transform_to_tensor(), norm);
    det_dataset *d = det_dataset_mnist(dir, .train = true, .transform = t);
    snprintf(command, sizeof command, "rm -r %s", dir);
    if (system(command)) exit(1);
    return d;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench-loader WORKERS SECONDS\n");
        return 2;
    }
    int workers = (int)strtol(argv[1], NULL, 10);
    double seconds = strtod(argv[2], NULL), begin = 0, end;
    det_err err;
    det_loader *l = det_loader_new(make_dataset(), .batch_size = BATCH, .shuffle = true,
                                   .num_workers = workers);
    det_iter *it = det_loader_iter(l, .repeat = true);
    int64_t n = 0;
    float sum = 0;
    for (int64_t i = 0;; i++) {
        if (i == det_iter_length(it)) begin = now(); // the first epoch is for warming up
        if (begin > 0 && i % 64 == 0 && now() - begin >= seconds) break;
        const det_value *batch = det_iter_next(it, &err);
        if (!batch) {
            fprintf(stderr, "bench-loader: %s\n", det_check(&err) ? err.msg : "no batch");
            return 1;
        }
        sum += det_data_f32(det_batch_at(batch, 0))[0];
        if (begin > 0) n += det_batch_length(batch, NULL);
    }
    end = now();
    printf("{\"workers\": %d, \"samples_per_s\": %.0f, \"sum\": %g}\n", workers,
           (double)n / (end - begin), (double)sum);
    det_iter_free(it);
    det_loader_free(l);
    return 0;
}
