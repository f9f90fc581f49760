/* test-replay.c: histories that PyTorch recorded replay without a difference.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <glib/gstdio.h>

#include "sim/memory/replay.h"
#include "tests/testing.h"

#define TOTAL_MEMORY INT64_C (150109880320)   /* of the H200 that all were recorded on */
#define LIMIT        INT64_C (4503296409)     /* floor (0.03 * TOTAL_MEMORY) */

typedef struct {
  const char *name, *conf;
  int64_t limit, reserved, allocated, requested, segments, inactive_split;   /* -1: not recorded */
  int64_t ooms, retries, syncs, device_allocs, device_frees;
} Case;

/* From tests/data/allocator-traces/README.md and the counters noted when recording. */
static const Case CASES[] = {
  { "default", "", 0, 30870077440, 13968499712, 13958044317, 86, 8160648192, 0, 0, 2, 111, 25 },
  { "expand", "expandable_segments:True", 0, 25765609472, 13958095872, 13958044317, -1, 0, 0, 0, 2,
    144, 68 },
  { "split", "max_split_size_mb:128", 0, 37570478080, 14069228032, 13958044317, 161, 1351130624, 0,
    0, 2, 332, 171 },
  { "round", "roundup_power2_divisions:4", 0, 29485957120, 15448238080, 13958044317, 80, 9302349824,
    0, 0, 2, 112, 32 },
  { "seg40", "large_segment_size_mb:40", 0, 28951183360, 13967071232, 13958044317, 80, 7371450368, 0,
    0, 2, 109, 29 },
  { "fraction-default", "", LIMIT, 4284481536, 2727520768, -1, -1, -1, 16, 40, 40, 120, 102 },
  { "fraction-gc", "garbage_collection_threshold:0.6", LIMIT, 4445962240, 1646277120, -1, -1, -1, 17,
    17, 17, 162, 144 },
  { "fraction-split64", "max_split_size_mb:64", LIMIT, 4496293888, 2789491200, -1, -1, -1, 12, 46,
    46, 523, 477 },
  { "fraction-expand", "expandable_segments:True", LIMIT, 4441767936, 2742957056, -1, -1, -1, 13, 56,
    56, 226, 324 },
  { "llama-step", "", 0, 5215617024, -1, -1, -1, -1, 0, 0, 0, -1, 0 },
};

static ZsHistory *
read_history (const char *format, const char *name)
{
  g_autofree char *relative = g_strdup_printf (format, name);
  g_autofree char *path = testing_source_path (relative);
  g_autoptr (GError) error = NULL;
  ZsHistory *history = zs_history_read (path, 0, &error);

  if (history == NULL)
    printf ("# %s\n", error->message);
  return history;
}

static ZsReplayOptions
options_of (const Case *test)
{
  ZsReplayOptions options = { .total_memory = TOTAL_MEMORY, .limit = test->limit, .check = true };

  CU_ASSERT_TRUE (zs_alloc_conf_parse (test->conf, &options.conf, NULL));
  return options;
}

static void
assert_no_mismatch (const char *name, const ZsReplayReport *report)
{
  for (guint i = 0; i < report->mismatches->len && i < 5; i++) {
    g_autofree char *text
      = zs_mismatch_format (&g_array_index (report->mismatches, ZsMismatch, i));

    printf ("# %s: %s\n", name, text);
  }
  CU_ASSERT_EQUAL (report->n_mismatches, 0);
  CU_ASSERT_EQUAL (report->diverged_at, -1);
  CU_ASSERT_EQUAL (report->n_skipped, 0);
  CU_ASSERT_TRUE (report->totals_agree);
}

static void
assert_counter (const char *name, const char *what, int64_t expected, int64_t found)
{
  if (expected >= 0 && expected != found) {
    printf ("# %s: %s is %" PRId64 ", recorded %" PRId64 "\n", name, what, found, expected);
    CU_FAIL ("a counter differs");
  }
}

static void
random_workloads_replay_to_the_byte (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    const Case *test = &CASES[i];
    g_autoptr (ZsHistory) history
      = read_history ("tests/data/allocator-traces/%s.tsv.gz", test->name);
    ZsReplayOptions options = options_of (test);
    ZsReplayReport report;

    CU_ASSERT_PTR_NOT_NULL_FATAL (history);
    zs_history_replay (history, &options, &report);
    assert_no_mismatch (test->name, &report);
    assert_counter (test->name, "reserved", test->reserved, report.counters.reserved.now);
    assert_counter (test->name, "allocated", test->allocated, report.counters.allocated.now);
    assert_counter (test->name, "requested", test->requested, report.counters.requested.now);
    assert_counter (test->name, "segments", test->segments, report.n_segments);
    assert_counter (test->name, "inactive_split", test->inactive_split,
                    report.inactive_split_bytes);
    assert_counter (test->name, "num_ooms", test->ooms, report.counters.num_ooms);
    assert_counter (test->name, "num_alloc_retries", test->retries,
                    report.counters.num_alloc_retries);
    assert_counter (test->name, "num_sync_all_streams", test->syncs,
                    report.counters.num_sync_all_streams);
    assert_counter (test->name, "num_device_alloc", test->device_allocs,
                    report.counters.num_device_alloc);
    assert_counter (test->name, "num_device_free", test->device_frees,
                    report.counters.num_device_free);
    zs_replay_report_clear (&report);
  }
}

/* ---- the blocks that are left ---- */

typedef struct {
  const ZsHistory *history;
  GArray  *rows;
} Blocks;

typedef struct {
  int64_t segment_address, segment_bytes, address, bytes, requested;
  uint64_t stream;
  bool    small;
  const char *state;
} BlockRow;

static void
add_block (void *self, const ZsSegment *segment, const ZsBlock *block)
{
  Blocks *blocks = self;
  static const char *const STATES[] = {
    [ZS_BLOCK_INACTIVE] = "inactive", [ZS_BLOCK_ALLOCATED] = "active_allocated",
    [ZS_BLOCK_AWAITING_FREE] = "active_awaiting_free", [ZS_BLOCK_UNMAPPED] = "unmapped",
  };
  BlockRow row = {
    segment->address, segment->bytes, zs_block_address (block), zs_block_size (block),
    zs_block_requested (block), blocks->history->streams[segment->stream], segment->small,
    STATES[zs_block_state (block)],
  };

  g_array_append_val (blocks->rows, row);
}

static void
collect_at_end (void *self, int64_t entry, ZsCachingAllocator *allocator)
{
  Blocks *blocks = self;

  if (entry == blocks->history->n_entries)
    zs_caching_allocator_each_block (allocator, add_block, blocks);
}

/* PyTorch lists an expandable range as one segment per contiguous mapped part. */
static void
split_at_unmapped (GArray *rows)
{
  for (guint i = 0; i < rows->len; i++) {
    BlockRow *row = &g_array_index (rows, BlockRow, i);
    BlockRow *before = i > 0 ? row - 1 : NULL;

    if (strcmp (row->state, "unmapped") == 0)
      continue;
    if (before != NULL && strcmp (before->state, "unmapped") != 0
        && before->address + before->bytes == row->address
        && before->stream == row->stream && before->small == row->small)
      row->segment_address = before->segment_address;
    else
      row->segment_address = row->address;
  }
  for (guint i = rows->len; i-- > 0;) {
    BlockRow *row = &g_array_index (rows, BlockRow, i);
    BlockRow *after = i + 1 < rows->len ? row + 1 : NULL;

    if (after != NULL && after->segment_address == row->segment_address
        && strcmp (after->state, "unmapped") != 0)
      row->segment_bytes = after->segment_bytes;
    else
      row->segment_bytes = row->address + row->bytes - row->segment_address;
  }
}

static char *
format_rows (GArray *rows)
{
  GString *text
    = g_string_new ("seg_addr\tseg_size\tseg_type\tstream\tblock_addr\tblock_size\trequested_size"
                    "\tstate\n");

  for (guint i = 0; i < rows->len; i++) {
    const BlockRow *row = &g_array_index (rows, BlockRow, i);

    if (strcmp (row->state, "unmapped") != 0)
      g_string_append_printf (text, "%" PRId64 "\t%" PRId64 "\t%s\t%" PRIu64 "\t%" PRId64 "\t%" PRId64
                              "\t%" PRId64 "\t%s\n", row->segment_address, row->segment_bytes,
                              row->small ? "small" : "large", row->stream, row->address,
                              row->bytes, row->requested, row->state);
  }
  return g_string_free (text, FALSE);
}

static char *
read_gzip (const char *path)
{
  GString *text = g_string_new (NULL);
  gzFile file = gzopen (path, "rb");
  char buffer[4096];
  int n;

  while (file != NULL && (n = gzread (file, buffer, sizeof buffer)) > 0)
    g_string_append_len (text, buffer, n);
  if (file != NULL)
    gzclose (file);
  return g_string_free (text, FALSE);
}

/* PyTorch leaves the size of the last request in a free block; it means nothing. */
static char *
forget_requests_of_free_blocks (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);

    if (g_strv_length (fields) != 8 || strcmp (fields[7], "inactive") != 0)
      continue;
    g_free (fields[6]);
    fields[6] = g_strdup ("0");
    g_free (lines[i]);
    lines[i] = g_strjoinv ("\t", fields);
  }
  return g_strjoinv ("\n", lines);
}

static void
the_blocks_left_are_those_of_the_snapshot (void)
{
  for (size_t i = 0; i < 5; i++) {
    const Case *test = &CASES[i];
    g_autoptr (ZsHistory) history
      = read_history ("tests/data/allocator-traces/%s.tsv.gz", test->name);
    ZsReplayOptions options = options_of (test);
    ZsReplayReport report;
    Blocks blocks = { .history = history, .rows = g_array_new (FALSE, FALSE, sizeof (BlockRow)) };

    CU_ASSERT_PTR_NOT_NULL_FATAL (history);
    options.visit = collect_at_end;
    options.self = &blocks;
    zs_history_replay (history, &options, &report);
    if (options.conf.expandable_segments)
      split_at_unmapped (blocks.rows);

    g_autofree char *found = format_rows (blocks.rows);
    g_autofree char *relative
      = g_strdup_printf ("tests/data/allocator-traces/%s.final.tsv.gz", test->name);
    g_autofree char *path = testing_source_path (relative);
    g_autofree char *snapshot = read_gzip (path);
    g_autofree char *expected = forget_requests_of_free_blocks (snapshot);

    CU_ASSERT_STRING_EQUAL (found, expected);
    g_array_free (blocks.rows, TRUE);
    zs_replay_report_clear (&report);
  }
}

/* ---- training runs, phase by phase ---- */

typedef struct {
  const ZsHistory *history;
  char  **lines;               /* of trace_phases.tsv */
  guint   line;
  char   *name;                /* with a tab */
  int     n_phases;
} Phases;

/* At the end of each phase the counters are those that torch reported; then its peaks are reset. */
static void
check_phases (void *self, int64_t entry, ZsCachingAllocator *allocator)
{
  Phases *phases = self;
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  int64_t now = entry < phases->history->n_entries ? phases->history->entries[entry].time_us
                                                   : INT64_MAX;

  for (; phases->lines[phases->line] != NULL; phases->line++) {
    const char *line = phases->lines[phases->line];

    if (!g_str_has_prefix (line, phases->name))
      continue;
    g_auto (GStrv) fields = g_strsplit (line, "\t", -1);

    if (now <= g_ascii_strtoll (fields[2], NULL, 10))
      return;
    assert_counter (line, "allocated", g_ascii_strtoll (fields[3], NULL, 10),
                    counters->allocated.now);
    /* DeepSpeed resets the peak itself while it makes the engine. */
    if (strcmp (fields[1], "engine") != 0 || strstr (line, "fsdp") != NULL)
      assert_counter (line, "peak allocated", g_ascii_strtoll (fields[4], NULL, 10),
                      counters->allocated.peak);
    assert_counter (line, "reserved", g_ascii_strtoll (fields[5], NULL, 10),
                    counters->reserved.now);
    assert_counter (line, "peak reserved", g_ascii_strtoll (fields[6], NULL, 10),
                    counters->reserved.peak);
    zs_caching_allocator_reset_peaks (allocator);
    phases->n_phases++;
  }
}

static void
training_runs_replay_phase_by_phase (void)
{
  static const char *const NAMES[] = {
    "ds0195_z2_tl", "ds0195_z3_1b_ck", "t_fsdp_1b", "t_plain_tl", "t_z2_tl", "t_z2_tl_w64",
    "t_z3_1b_ck", "t_z3_7b_ckre", "t_z3_tl", "t_z3_tl_offall",
  };
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_phases.tsv");
  g_autofree char *text = NULL;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (size_t i = 0; i < G_N_ELEMENTS (NAMES); i++) {
    g_autoptr (ZsHistory) history = read_history ("tests/data/h200/trace_%s.csv.gz", NAMES[i]);
    g_autofree char *prefix = g_strconcat (NAMES[i], "\t", NULL);
    Phases phases = { .history = history, .lines = lines, .name = prefix };
    ZsReplayOptions options = { .total_memory = TOTAL_MEMORY, .visit = check_phases,
                                .self = &phases };
    ZsReplayReport report;

    CU_ASSERT_PTR_NOT_NULL_FATAL (history);
    zs_alloc_conf_init (&options.conf);
    zs_history_replay (history, &options, &report);
    assert_no_mismatch (NAMES[i], &report);
    CU_ASSERT_TRUE (phases.n_phases >= 8);
    zs_replay_report_clear (&report);
  }
}

/* ---- what is wrong is found ---- */

static void
a_changed_entry_is_reported (void)
{
  g_autoptr (ZsHistory) history = read_history ("tests/data/allocator-traces/%s.tsv.gz", "default");
  ZsReplayOptions options = { .total_memory = TOTAL_MEMORY };
  ZsReplayReport report;
  int64_t changed = 0;

  CU_ASSERT_PTR_NOT_NULL_FATAL (history);
  zs_alloc_conf_init (&options.conf);
  for (int64_t i = history->n_entries / 2; changed == 0; i++)
    if (history->entries[i].action == ZS_ALLOCATOR_SEGMENT_ALLOC) {
      history->entries[i].bytes += 2 * ZS_MIB;
      changed = i;
    }
  zs_history_replay (history, &options, &report);
  CU_ASSERT_TRUE (report.n_mismatches >= 1);
  CU_ASSERT_EQUAL (report.diverged_at, changed);
  CU_ASSERT_EQUAL (g_array_index (report.mismatches, ZsMismatch, 0).entry, changed);
  CU_ASSERT_FALSE (report.totals_agree);
  zs_replay_report_clear (&report);
}

static void
the_wrong_settings_are_reported (void)
{
  g_autoptr (ZsHistory) history = read_history ("tests/data/allocator-traces/%s.tsv.gz", "round");
  ZsReplayOptions options = { .total_memory = TOTAL_MEMORY, .check = true };
  ZsReplayReport report;

  CU_ASSERT_PTR_NOT_NULL_FATAL (history);
  zs_alloc_conf_init (&options.conf);
  zs_history_replay (history, &options, &report);
  CU_ASSERT_TRUE (report.n_mismatches > 10);
  CU_ASSERT_FALSE (report.totals_agree);
  zs_replay_report_clear (&report);
}

/* Any order of any entries is replayed without harm. */
static void
nonsense_is_survived (void)
{
  static const char *const CONFS[] = {
    "", "expandable_segments:True", "max_split_size_mb:64,garbage_collection_threshold:0.5",
  };
  GRand *random = g_rand_new_with_seed (7);

  for (int round = 0; round < 30; round++) {
    ZsHistory history = { .n_entries = 400, .n_streams = 3 };
    g_autofree ZsHistoryEntry *entries = g_new0 (ZsHistoryEntry, 400);
    ZsReplayOptions options = { .limit = round % 2 == 0 ? 0 : INT64_C (1) << 32, .check = true };
    ZsReplayReport report;

    history.entries = entries;
    for (int i = 0; i < 400; i++)
      entries[i] = (ZsHistoryEntry) {
        .action = (uint8_t) g_rand_int_range (random, 0, ZS_N_ALLOCATOR_ACTIONS),
        .stream = (uint8_t) g_rand_int_range (random, 0, 3),
        .address = g_rand_int_range (random, 0, 40) * (INT64_C (1) << g_rand_int_range (random, 0, 41)),
        .bytes = INT64_C (1) << g_rand_int_range (random, 0, 39),
      };
    CU_ASSERT_TRUE (zs_alloc_conf_parse (CONFS[round % 3], &options.conf, NULL));
    zs_history_replay (&history, &options, &report);
    CU_ASSERT_TRUE (report.n_mismatches > 0);
    zs_replay_report_clear (&report);
  }
  g_rand_free (random);
}

static void
bad_files_are_named_with_their_line (void)
{
  static const struct { const char *text, *message; } CASES_OF_ERROR[] = {
    { "", ": empty file" },
    { "action,addr,size\n", ":1: no column 'stream'; expected action, addr, size, stream, or a "
                            "snapshot of torch.cuda.memory" },
    { "action,addr,size,stream\nalloc,0,x,0\n", ":2: 'size' must be a whole number" },
    { "action,addr,size,stream\nalloc,0,12\n", ":2: 'stream' must be a whole number" },
    { "action\taddr\tsize\tstream\nalloc\t0\t1\t0\nfrob\t0\t1\t0\n", ":3: unknown action 'frob'" },
    { "action,addr,size,stream\nalloc,0,-1,0\n", ":2: a size must be 0 to 256 GiB" },
    { "action,addr,size,stream\nalloc,-5,1,0\n", ":2: an address must have at most 47 bits" },
    { "action,addr,size,stream\nalloc,0,99999999999999999999,0\n", ":2: 'size' must be a whole number" },
    { "action,addr,size,stream\nalloc,0,0,0\n", ":2: only a snapshot may have size 0" },
  };
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "zs-history-XXXXXX", NULL);
  int file = g_mkstemp (path);

  CU_ASSERT_TRUE_FATAL (file >= 0);
  g_close (file, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS (CASES_OF_ERROR); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *expected = g_strconcat (path, CASES_OF_ERROR[i].message, NULL);

    CU_ASSERT_TRUE (g_file_set_contents (path, CASES_OF_ERROR[i].text, -1, NULL));
    CU_ASSERT_PTR_NULL (zs_history_read (path, 0, &error));
    CU_ASSERT_PTR_NOT_NULL_FATAL (error);
    CU_ASSERT_STRING_EQUAL (error->message, expected);
  }
  remove (path);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "random workloads replay to the byte", random_workloads_replay_to_the_byte },
    { "the blocks left are those of the snapshot", the_blocks_left_are_those_of_the_snapshot },
    { "training runs replay phase by phase", training_runs_replay_phase_by_phase },
    { "a changed entry is reported", a_changed_entry_is_reported },
    { "the wrong settings are reported", the_wrong_settings_are_reported },
    { "nonsense is survived", nonsense_is_survived },
    { "bad files are named with their line", bad_files_are_named_with_their_line },
    CU_TEST_INFO_NULL
  };
  return testing_main ("replay", tests);
}
