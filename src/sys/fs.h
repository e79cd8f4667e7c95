// sys/fs.h: files. Every error names the path and repeats what the system said; a full disk is
// DET_ENOSPC, a missing file DET_ENOTFOUND, anything else DET_EIO.
//   fs_fail  fs_read  fs_create  fs_map  fs_unmap  fs_writer_open  fs_writer_add
//   fs_writer_commit  fs_writer_publish  fs_writer_close  fs_sync_directory_of
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdint.h>

// Reports errno: "cannot write '/ckpt/x.pth': No space left on device". Returns the code.
int fs_fail(det_err *err, const char *verb, const char *path);

// Replaces the content of out by that of a file of any kind. DET_ELIMIT beyond out->max bytes.
int fs_read(const char *path, struct buf *out, det_err *err);

// Writes a new file, as it is: not atomic and not synced, for whoever cares for that himself.
int fs_create(const char *path, struct str content, det_err *err);

// Maps a regular file for reading. Who shortens it in place meanwhile ends the process (SIGBUS);
// files written by fs_writer are replaced, never changed, so a mapping of them stays whole.
int fs_map(const char *path, struct str *out, det_err *err);
void fs_unmap(struct str map);

// Writes a file that appears complete under its name or not at all, whatever happens meanwhile: a
// temporary file in the same directory is synced, renamed, and the directory is synced. All that a
// killed process can leave behind is a file .det-<pid>-<n>.tmp.
struct fs_writer {
    char *path;
    char temp[64]; // name inside the directory; empty when there is nothing to remove
    int fd, dir_fd;
    uint64_t n_bytes; // added so far
};

#define FS_WRITER_INIT ((struct fs_writer){.fd = -1, .dir_fd = -1})

int fs_writer_open(struct fs_writer *w, const char *path, det_err *err);
int fs_writer_add(struct fs_writer *w, const void *bytes, size_t n, det_err *err);
int fs_writer_commit(struct fs_writer *w, det_err *err);
int fs_writer_publish(struct fs_writer *w, det_err *err); // does not wait for the disk: what dies
                                                          // with the machine need not survive it
void fs_writer_close(struct fs_writer *w); // without a commit before, nothing has happened

// Makes the name of a file that was created, renamed or removed durable.
int fs_sync_directory_of(const char *path, det_err *err);
