/* file.h: reading whole files within a limit, and writing them so that no half file is ever seen.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

/* All of PATH ("-": standard input, which can be read again), at most MAX_BYTES, with a NUL after it that LENGTH does not count.
 * *RET_TEXT is freed with g_free; RET_LENGTH may be NULL.  Errors start with PATH. */
bool zs_file_read (const char *path, gsize max_bytes, char **ret_text, gsize *ret_length,
                   GError **error);

/* A file that is written under a temporary name beside PATH and gets its name at the end ("-": standard
 * output, which stays open). */
typedef struct ZsFileWriter ZsFileWriter;

ZsFileWriter *zs_file_writer_new (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* Where to write; belongs to the writer. */
FILE         *zs_file_writer_stream (ZsFileWriter *writer);
/* Gives the file its name.  Frees WRITER in any case; on failure the old file is untouched. */
bool          zs_file_writer_commit (ZsFileWriter *writer, GError **error);
/* Removes what was written. */
void          zs_file_writer_free (ZsFileWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsFileWriter, zs_file_writer_free)

/* LENGTH bytes of TEXT (-1: up to its NUL) as the whole of PATH ("-": standard output). */
bool zs_file_write (const char *path, const char *text, gssize length, GError **error);
