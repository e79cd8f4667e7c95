// task/log.h: writing the log of a task, and the form of its lines. Private to the layer.
//
// The log is one stream of bytes, cut into files named by the position of their first byte, with
// zeros in front so that they sort. A line of output is a line there, too, behind "<time in us>
// <rank> <letter> "; so what a crash leaves half-written is what follows the last newline.
#pragma once

#include "task/task.h"

enum {
    LOG_LINE_BYTES = 16 << 10, // longer lines are cut into partial ones
    LOG_MAX_FILES = 8,         // pieces that the limit is divided into
};

// A file as large as the whole is allowed to be divided by LOG_MAX_FILES, then the next one.
struct spool {
    int dir, fd;
    int64_t begin, size; // of the current file: position in the whole, bytes in it
    int64_t max_bytes;
    int64_t files[LOG_MAX_FILES + 1]; // positions, the oldest first
    int n_files;
    int64_t n_dropped; // lines that could not be written; the next one that can be says so
    int64_t full_us;   // since when there is too much (monotonic); 0: there is not
    bool deserted;     // nobody has taken anything for too long, so nobody is waited for
};

#define SPOOL_INIT ((struct spool){.dir = -1, .fd = -1})

// dir is borrowed.
int spool_open(struct spool *s, int dir, int64_t max_bytes, det_err *err);
void spool_close(struct spool *s);

// Never fails and never waits: without space the line is dropped. text has no newline.
void spool_add(struct spool *s, const struct task_line *line);

// There is as much as may be, and whoever reads it is behind: better wait before adding more. Not
// for ever: after some seconds in which nothing is taken the oldest lines are dropped instead.
bool spool_is_full(struct spool *s, int64_t now_us);

// Makes durable what is there, as far as the disk allows.
void spool_sync(const struct spool *s);

enum { LOG_NAME_BYTES = 20 }; // "log.000000001048602" and the NUL
void log_file_name(int64_t position, char out[LOG_NAME_BYTES]);

// One line of the file, without its newline. What is not of the right form becomes a line of the
// shim with the whole as its text.
struct task_line log_parse_line(struct str line);

enum { LOG_HEAD_BYTES = 64 };
size_t log_format_head(const struct task_line *line, char out[LOG_HEAD_BYTES]);
