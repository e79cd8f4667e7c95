// A program that reports and saves checkpoints, alone, until it is ended. What the calls have
// acknowledged it writes to another file, on a disk that keeps its power.
//
//     reporter FOLDER COUNTS
#include <det/client.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECKPOINT_EVERY = 5 };

struct counts {
    int64_t n_reports, n_checkpoints;
};

static void give_up(const det_err *err)
{
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

static void save(det_core *core, int64_t number)
{
    det_checkpoint *c;
    det_err err;
    char path[4096], text[8192];
    const char *folder = det_checkpoint_begin(core, &c, &err);
    if (!folder) give_up(&err);
    snprintf(path, sizeof path, "%s/state", folder);
    memset(text, 'a' + (int)(number % 26), sizeof text);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, text, sizeof text) != sizeof text || close(fd)) exit(1);
    if (det_checkpoint_commit(c, NULL, &err)) give_up(&err);
}

int main(int argc, char **argv)
{
    struct counts counts = {0, 0};
    det_err err;
    if (argc != 3) return 2;
    int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    det_core *core = det_core_init_with(&(det_core_opts){.folder = argv[1]}, &err);
    if (fd < 0 || !core) give_up(&err);
    for (int64_t i = 1;; i++) {
        if (det_core_report_training_metrics(core, i, DET_METRICS({"loss", 1.0 / (double)i}), &err))
            give_up(&err);
        counts.n_reports = i;
        if (pwrite(fd, &counts, sizeof counts, 0) != sizeof counts) return 1;
        if (i % CHECKPOINT_EVERY) continue;
        save(core, i);
        counts.n_checkpoints++;
        if (pwrite(fd, &counts, sizeof counts, 0) != sizeof counts) return 1;
    }
}
