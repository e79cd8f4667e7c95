// sys/archive.h: libarchive, which is loaded when it is first needed. Its functions are members of
// `libarchive`, without the prefix archive_.
//   archive_load
//
//     if (archive_load(err)) return err->code;
//     struct archive *a = libarchive.read_new();
#pragma once

#include "sys/library.h"
#include <archive.h>
#include <archive_entry.h>

// clang-format off
#define ARCHIVE_FUNCTIONS(F)                                                                        \
    F(archive, read_new) F(archive, read_free) F(archive, read_support_format_tar)                  \
    F(archive, read_support_format_empty) F(archive, read_support_filter_gzip)                      \
    F(archive, read_support_filter_zstd) F(archive, read_open_memory)                               \
    F(archive, read_open_filename) F(archive, read_next_header) F(archive, read_data)               \
    F(archive, write_new) F(archive, write_free) F(archive, write_set_format_pax_restricted)        \
    F(archive, write_add_filter_gzip) F(archive, write_set_options) F(archive, write_open2)         \
    F(archive, write_header) F(archive, write_data) F(archive, write_close)                         \
    F(archive, entry_new) F(archive, entry_free) F(archive, entry_filetype)                         \
    F(archive, entry_pathname) F(archive, entry_hardlink) F(archive, entry_perm)                    \
    F(archive, entry_set_pathname) F(archive, entry_set_filetype) F(archive, entry_set_perm)        \
    F(archive, entry_set_size) F(archive, error_string)
// clang-format on

struct archive_functions {
    ARCHIVE_FUNCTIONS(LIBRARY_MEMBER)
};
extern struct archive_functions libarchive;

// By any thread, before libarchive is used. DET_ENOTFOUND: the library is not installed.
int archive_load(det_err *err);
