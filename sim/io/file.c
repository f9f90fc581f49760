/* file.c: whole files.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/error.h"

static bool
fail (GError **error, const char *path, const char *what)
{
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: %s", path, what);
  return false;
}

/* What came from standard input takes its place, from its start: it can be read again. */
static bool
keep_input (const GString *text, GError **error)
{
  int fd = memfd_create ("standard input", MFD_CLOEXEC);
  gsize done = 0;

  while (fd >= 0 && done < text->len) {
    ssize_t n = write (fd, text->str + done, text->len - done);

    if (n < 0 && errno != EINTR)
      break;
    done += n > 0 ? (gsize)n : 0;
  }
  bool ok = fd >= 0 && done == text->len && lseek (fd, 0, SEEK_SET) == 0 && dup2 (fd, STDIN_FILENO) >= 0;

  if (!ok)
    fail (error, "standard input", g_strerror (errno));
  if (fd >= 0)
    close (fd);
  return ok;
}

bool
zs_file_read (const char *path, gsize max_bytes, char **ret_text, gsize *ret_length, GError **error)
{
  bool standard = strcmp (path, "-") == 0;
  /* a FIFO or terminal without a writer must not hang us before we know what it is */
  int fd = standard ? STDIN_FILENO : open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;

  if (fd < 0)
    return fail (error, path, g_strerror (errno));
  if (fstat (fd, &status) == 0 && S_ISDIR (status.st_mode)) {
    close (fd);
    return fail (error, path, "this is a folder, not a file");
  }
  if (!standard && (S_ISCHR (status.st_mode) || S_ISBLK (status.st_mode))) {
    close (fd);
    return fail (error, path, "this is a device, not a file");
  }
  if (!standard)
    fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK);

  GString *text = g_string_new (NULL);
  off_t start = standard ? lseek (fd, 0, SEEK_CUR) : 0;   /* below 0: a pipe, which gives its text once */
  bool ok = true;

  for (;;) {
    char buffer[65536];
    ssize_t n = read (fd, buffer, sizeof buffer);

    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      ok = fail (error, path, g_strerror (errno));
    if (n <= 0)
      break;
    if (text->len + (gsize)n > max_bytes) {
      g_autofree char *what =
          g_strdup_printf ("larger than %" G_GSIZE_FORMAT " MiB", max_bytes >> 20);

      ok = fail (error, path, what);
      break;
    }
    g_string_append_len (text, buffer, n);
  }
  if (!standard)
    close (fd);
  else if (start >= 0)
    lseek (fd, start, SEEK_SET);
  else if (ok)
    ok = keep_input (text, error);
  if (!ok) {
    g_string_free (text, TRUE);
    return false;
  }
  if (ret_length != NULL)
    *ret_length = text->len;
  *ret_text = g_string_free (text, FALSE);
  return true;
}

struct ZsFileWriter {
  char *path, *temporary; /* TEMPORARY: NULL where PATH is written itself */
  FILE *stream;           /* stdout is not closed */
};

ZsFileWriter *
zs_file_writer_new (const char *path, GError **error)
{
  struct stat status;

  if (strcmp (path, "-") == 0) {
    ZsFileWriter *standard = g_new0 (ZsFileWriter, 1);

    standard->path = g_strdup ("standard output");
    standard->stream = stdout;
    return standard;
  }
  if (stat (path, &status) == 0 && S_ISDIR (status.st_mode)) {
    fail (error, path, "this is a folder");
    return NULL;
  }

  /* a device or a pipe must not be replaced by a file; nor a link, but what it points to */
  char *target = realpath (path, NULL);
  bool special = (stat (path, &status) == 0 && !S_ISREG (status.st_mode))
                 || (target == NULL && lstat (path, &status) == 0);
  g_autofree char *temporary
      = special ? NULL : g_strdup_printf ("%s.XXXXXX", target != NULL ? target : path);
  int fd = special ? open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                   : g_mkstemp_full (temporary, O_RDWR | O_CLOEXEC, 0666);

  if (fd < 0) {
    fail (error, path, g_strerror (errno));
    free (target);
    return NULL;
  }

  ZsFileWriter *writer = g_new0 (ZsFileWriter, 1);

  writer->path = g_strdup (target != NULL ? target : path);
  free (target);
  writer->temporary = g_steal_pointer (&temporary);
  writer->stream = fdopen (fd, "w");
  return writer;
}

FILE *
zs_file_writer_stream (ZsFileWriter *writer)
{
  return writer->stream;
}

void
zs_file_writer_free (ZsFileWriter *writer)
{
  if (writer == NULL)
    return;
  if (writer->stream != NULL && writer->stream != stdout) {
    fclose (writer->stream);
    if (writer->temporary != NULL)
      unlink (writer->temporary);
  }
  g_free (writer->path);
  g_free (writer->temporary);
  g_free (writer);
}

bool
zs_file_writer_commit (ZsFileWriter *writer, GError **error)
{
  bool ok = !ferror (writer->stream);
  int problem = EIO;

  if (fflush (writer->stream) != 0) {
    ok = false;
    problem = errno;
  }
  if (writer->stream != stdout && fclose (writer->stream) != 0 && ok) {
    ok = false;
    problem = errno;
  }
  writer->stream = NULL;
  if (ok && writer->temporary != NULL && rename (writer->temporary, writer->path) != 0) {
    ok = false;
    problem = errno;
  }
  if (!ok) {
    if (writer->temporary != NULL)
      unlink (writer->temporary);
    fail (error, writer->path, g_strerror (problem));
  }
  zs_file_writer_free (writer);
  return ok;
}

bool
zs_file_write (const char *path, const char *text, gssize length, GError **error)
{
  gsize n = length < 0 ? strlen (text) : (gsize)length;

  ZsFileWriter *writer = zs_file_writer_new (path, error);

  if (writer == NULL)
    return false;
  fwrite (text, 1, n, writer->stream);
  return zs_file_writer_commit (writer, error);
}
