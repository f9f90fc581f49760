/* test-snapshot.c: snapshots are read and written as Python reads and writes them.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "sim/memory/replay.h"
#include "sim/memory/snapshot-writer.h"
#include "tests/testing.h"

static char *
temporary_path (void)
{
  char *path = g_build_filename (g_get_tmp_dir (), "zs-snapshot-XXXXXX", NULL);
  int file = g_mkstemp (path);

  g_assert (file >= 0);
  g_close (file, NULL);
  return path;
}

/* Run snapshot.py; false with its complaint printed when it fails. */
static bool
run_python (const char *mode, const char *a, const char *b, const char *c, const char *d)
{
  g_autofree char *script = testing_source_path ("tests/memory/snapshot.py");
  const char *argv[] = { "python3", script, mode, a, b, c, d, NULL };
  g_autofree char *complaint = NULL;
  int status;

  if (!g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &complaint,
                     &status, NULL)) {
    printf ("# no python3\n");
    return true;
  }
  if (g_spawn_check_wait_status (status, NULL))
    return true;
  g_auto (GStrv) lines = g_strsplit (g_strchomp (complaint), "\n", -1);

  printf ("# %s\n", lines[g_strv_length (lines) - 1]);
  return false;
}

/* ---- writing ---- */

typedef struct {
  ZsSnapshotWriter *writer;
  int64_t n_entries, n_recorded, n_done;
} Recorder;

static void
on_segment (void *self, ZsAllocatorAction action, int64_t address, int64_t bytes, int stream)
{
  Recorder *recorder = self;

  zs_snapshot_writer_add (recorder->writer, action, address, bytes, stream, 0, NULL, NULL,
                          recorder->n_entries++ * 1000000);
}

static void
on_block (void *self, ZsAllocatorAction action, const ZsBlock *block)
{
  Recorder *recorder = self;

  zs_snapshot_writer_add (recorder->writer, action, zs_block_address (block),
                          zs_block_requested (block), zs_block_stream (block),
                          zs_block_category (block), "phase", "tensor",
                          recorder->n_entries++ * 1000000);
}

static int64_t
record (void *self, int stream)
{
  (void) stream;
  return ((Recorder *) self)->n_recorded++;
}

static bool
done (void *self, int64_t event)
{
  return event < ((Recorder *) self)->n_done;
}

static void
work (ZsCachingAllocator *allocator, Recorder *recorder, guint32 seed)
{
  GRand *random = g_rand_new_with_seed (seed);
  ZsBlock *blocks[200];
  int n = 0;

  for (int i = 0; i < 2500; i++)
    if (n == 200 || (n > 0 && g_rand_int_range (random, 0, 5) < 2)) {
      int k = g_rand_int_range (random, 0, n);

      if (k % 9 == 0)
        zs_caching_allocator_record_stream (allocator, blocks[k], 3);
      if (k % 5 == 0)
        recorder->n_done = recorder->n_recorded;
      zs_caching_allocator_free_block (allocator, blocks[k]);
      blocks[k] = blocks[--n];
    } else
      blocks[n++] = zs_caching_allocator_malloc (
        allocator, g_rand_int_range (random, 1, 1 << g_rand_int_range (random, 4, 28)),
        g_rand_int_range (random, 0, 3), (unsigned int) g_rand_int_range (random, 0, 2), 0);
  g_rand_free (random);
}

static void
what_is_written_is_read_back (void)
{
  static const char *const CATEGORIES[] = { "parameters", "activations" };
  static const char *const CONFS[] = { "", "expandable_segments:True" };
  g_autofree char *path = temporary_path ();

  for (guint32 i = 0; i < 4; i++) {
    Recorder recorder = { .writer = zs_snapshot_writer_new (CATEGORIES, 2) };
    ZsAllocatorHost host = { .self = &recorder, .record = record, .done = done,
                             .on_segment = on_segment, .on_block = on_block };
    ZsReplayOptions options = { .total_memory = INT64_C (80) << 30, .check = true };
    ZsReplayReport report;
    bool derived = i / 2 == 1;

    CU_ASSERT_TRUE_FATAL (zs_alloc_conf_parse (CONFS[i % 2], &options.conf, NULL));
    g_autoptr (ZsCachingAllocator) allocator
      = zs_caching_allocator_new (&options.conf, options.total_memory, &host);
    const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);

    work (allocator, &recorder, i);
    CU_ASSERT_TRUE (zs_snapshot_writer_write (recorder.writer, derived ? NULL : allocator,
                                              CONFS[i % 2], path, NULL));
    CU_ASSERT_TRUE (run_python ("check", path, NULL, NULL, NULL));

    g_autoptr (GError) error = NULL;
    g_autoptr (ZsHistory) history = zs_history_read (path, 0, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (history);
    CU_ASSERT_EQUAL (history->n_entries, recorder.n_entries);
    CU_ASSERT_STRING_EQUAL (history->alloc_conf, CONFS[i % 2]);
    CU_ASSERT_EQUAL (history->totals.reserved, counters->reserved.now);
    CU_ASSERT_EQUAL (history->totals.requested, counters->requested.now);
    if (!derived) {
      CU_ASSERT_EQUAL (history->totals.allocated, counters->allocated.now);
      CU_ASSERT_EQUAL (history->totals.active, counters->active.now);
    }
    zs_history_replay (history, &options, &report);
    if (report.n_mismatches > 0) {
      g_autofree char *text
        = zs_mismatch_format (&g_array_index (report.mismatches, ZsMismatch, 0));

      printf ("# %s\n", text);
    }
    CU_ASSERT_EQUAL (report.n_mismatches, 0);
    CU_ASSERT_TRUE (derived || report.totals_agree);
    zs_replay_report_clear (&report);
    zs_snapshot_writer_free (recorder.writer);
  }
  g_remove (path);
}

static void
a_path_that_cannot_be_written_is_named (void)
{
  g_autoptr (ZsSnapshotWriter) writer = zs_snapshot_writer_new (NULL, 0);
  g_autoptr (GError) error = NULL;

  CU_ASSERT_FALSE (zs_snapshot_writer_write (writer, NULL, NULL, "/nowhere/at/all", &error));
  CU_ASSERT_PTR_NOT_NULL_FATAL (error);
  CU_ASSERT_STRING_EQUAL (error->message, "/nowhere/at/all: No such file or directory");
}

/* ---- reading ---- */

static void
snapshots_of_every_protocol_replay (void)
{
  static const char *const PROTOCOLS[] = { "2", "3", "4", "5" };
  g_autofree char *path = temporary_path ();
  g_autofree char *table = testing_source_path ("tests/data/allocator-traces/expand.tsv.gz");
  g_autofree char *found = g_find_program_in_path ("python3");

  for (size_t i = 0; found != NULL && i < G_N_ELEMENTS (PROTOCOLS); i++) {
    ZsReplayOptions options = { .total_memory = INT64_C (150109880320) };
    ZsReplayReport report;
    g_autoptr (GError) error = NULL;

    CU_ASSERT_TRUE (run_python ("make", table, path, PROTOCOLS[i], "expandable_segments:True"));
    g_autoptr (ZsHistory) history = zs_history_read (path, 1, &error);

    if (history == NULL)
      printf ("# %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL (history);
    CU_ASSERT_EQUAL (history->n_entries, 10005);
    CU_ASSERT_EQUAL (history->entries[0].time_us, INT64_C (1796060992373417));
    CU_ASSERT_TRUE (zs_alloc_conf_parse (history->alloc_conf, &options.conf, NULL));
    history->has_totals = false;   /* the script writes no segments */
    zs_history_replay (history, &options, &report);
    CU_ASSERT_EQUAL (report.n_mismatches, 0);
    zs_replay_report_clear (&report);
  }
  g_remove (path);
}

static void
assert_refused (const char *path, const char *data, gsize length, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *expected = g_strconcat (path, ": ", message, NULL);

  CU_ASSERT_TRUE (g_file_set_contents (path, data, (gssize) length, NULL));
  CU_ASSERT_PTR_NULL (zs_history_read (path, 0, &error));
  CU_ASSERT_PTR_NOT_NULL_FATAL (error);
  if (strcmp (error->message, expected) != 0)
    printf ("# %s\n", error->message);
  CU_ASSERT_STRING_EQUAL (error->message, expected);
}

static void
a_pickle_that_calls_something_is_refused (void)
{
  g_autofree char *path = temporary_path ();
  /* pickle.dumps (an object whose __reduce__ is (os.system, ("true",))) */
  static const char CALL[] = "\x80\x02" "cposix\nsystem\nX\x04\x00\x00\x00true\x85R.";

  assert_refused (path, CALL, sizeof CALL - 1,
                  "byte 2: opcode 0x63 is not plain data, and nothing else is read");
  assert_refused (path, "\x80\x02}.", 4,
                  "no 'device_traces'; expected a snapshot of torch.cuda.memory");
  assert_refused (path, "\x80\x02}X\x0d\x00\x00\x00" "device_traces](]es.", 27,
                  "no history of GPU 0; it is recorded after "
                  "torch.cuda.memory._record_memory_history ()");
  assert_refused (path, "\x80\x02]a.", 5, "byte 4: no container on the stack");
  assert_refused (path, "\x80\x02" "e.", 4, "byte 3: no mark on the stack");
  assert_refused (path, "\x80\x02(K\x01" "d.", 7, "byte 6: a key without a value");
  assert_refused (path, "\x80\x02h\x05.", 5, "byte 4: nothing remembered under 5");
  assert_refused (path, "\x80\x02r\xff\xff\xff\x7f.", 8, "byte 7: nothing to remember");
  assert_refused (path, "\x80\x02Nr\xff\xff\xff\x7f.", 9, "byte 8: a memo index is too large");
  assert_refused (path, "\x80\x02X\xff\xff\xff\xff.", 8, "byte 7: the file ends too early");
  assert_refused (path, "\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", 14,
                  "byte 4: an integer is too large");
  g_remove (path);
}

static void
a_damaged_snapshot_is_survived (void)
{
  static const char *const CATEGORIES[] = { "parameters" };
  g_autofree char *path = temporary_path ();
  g_autofree char *data = NULL;
  gsize length;
  GRand *random = g_rand_new_with_seed (5);
  Recorder recorder = { .writer = zs_snapshot_writer_new (CATEGORIES, 1) };
  ZsAllocatorHost host = { .self = &recorder, .on_segment = on_segment, .on_block = on_block };
  ZsAllocConf conf;

  zs_alloc_conf_init (&conf);
  g_autoptr (ZsCachingAllocator) allocator
    = zs_caching_allocator_new (&conf, INT64_C (80) << 30, &host);

  zs_caching_allocator_free_block (allocator,
                                   zs_caching_allocator_malloc (allocator, 1000, 0, 0, 0));
  CU_ASSERT_TRUE (zs_snapshot_writer_write (recorder.writer, allocator, "", path, NULL));
  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &data, &length, NULL));
  for (int i = 0; i < 600; i++) {
    g_autofree char *copy = g_memdup2 (data, length);
    gsize cut = i % 2 == 0 ? (gsize) g_rand_int_range (random, 0, (int) length) : length;

    if (i % 2 == 1)
      copy[g_rand_int_range (random, 0, (int) length)] = (char) g_rand_int_range (random, 0, 256);
    CU_ASSERT_TRUE (g_file_set_contents (path, copy, (gssize) cut, NULL));
    zs_history_free (zs_history_read (path, 0, NULL));
  }
  zs_snapshot_writer_free (recorder.writer);
  g_rand_free (random);
  g_remove (path);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "what is written is read back", what_is_written_is_read_back },
    { "a path that cannot be written is named", a_path_that_cannot_be_written_is_named },
    { "snapshots of every protocol replay", snapshots_of_every_protocol_replay },
    { "a pickle that calls something is refused", a_pickle_that_calls_something_is_refused },
    { "a damaged snapshot is survived", a_damaged_snapshot_is_survived },
    CU_TEST_INFO_NULL
  };
  return testing_main ("snapshot", tests);
}
