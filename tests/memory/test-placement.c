/* test-placement.c: addresses of device memory, against recorded ones.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "sim/memory/placement.h"
#include "tests/testing.h"

#define MIB INT64_C (1048576)
#define WINDOW (32 * MIB)

typedef struct {
  bool    alloc;
  int64_t bytes, address;
} Call;

/* The calls of SEED. */
static GArray *
read_calls (int seed)
{
  g_autofree char *path = testing_source_path ("tests/data/placement/cumem.csv.gz");
  GArray *calls = g_array_new (FALSE, FALSE, sizeof (Call));
  gzFile file = gzopen (path, "rb");
  char line[256];

  while (file != NULL && gzgets (file, line, sizeof line) != NULL) {
    g_auto (GStrv) words = g_strsplit (g_strchomp (line), ",", -1);

    if (g_strv_length (words) < 4 || g_ascii_strtoll (words[0], NULL, 10) != seed || strcmp (words[0], "seed") == 0)
      continue;
    Call call = { strcmp (words[1], "alloc") == 0, g_ascii_strtoll (words[2], NULL, 10),
                  g_ascii_strtoll (words[3], NULL, 10) };
    g_array_append_val (calls, call);
  }
  if (file != NULL)
    gzclose (file);
  return calls;
}

/* What the process had before lies above the first region of 32 MiB that begins below all others. */
static void
recorded_addresses_are_met (void)
{
  int n_met = 0;

  for (int seed = 0; seed < 8; seed++) {
    g_autoptr (GArray) calls = read_calls (seed);
    g_autoptr (ZsPlacement) placement = zs_placement_new (TRUE);
    int64_t lowest = INT64_MAX, shift = 0;
    bool begun = false;

    for (guint i = 0; i < calls->len; i++) {
      const Call *call = &g_array_index (calls, Call, i);

      if (!begun && call->alloc && call->address % WINDOW == 0 && lowest != INT64_MAX && call->address < lowest) {
        begun = true;
        lowest = call->address + (call->bytes + WINDOW - 1) / WINDOW * WINDOW;
        shift = call->address - zs_placement_take (placement, call->bytes);
        n_met++;
        continue;
      }
      if (!begun) {
        lowest = MIN (lowest, call->address);
      } else if (call->address < lowest) {
        if (!call->alloc)
          zs_placement_give (placement, call->address - shift, call->bytes);
        else {
          int64_t address = zs_placement_take (placement, call->bytes) + shift;

          CU_ASSERT_EQUAL_FATAL (address, call->address);
          n_met++;
        }
      }
    }
  }
  CU_ASSERT_TRUE (n_met > 2200);
  printf ("# %d addresses\n", n_met);
}

/* What is alive does not overlap, and an emptied placement begins anew. */
static void
spans_never_overlap (void)
{
  g_autoptr (GRand) dice = g_rand_new_with_seed (7);
  g_autoptr (ZsPlacement) placement = zs_placement_new (FALSE);
  uint64_t before = zs_placement_digest (placement);
  g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (Call));

  for (int i = 0; i < 4000; i++) {
    if (live->len > 0 && (i >= 3000 || g_rand_int_range (dice, 0, 5) < 2)) {
      guint index = (guint) g_rand_int_range (dice, 0, (int) live->len);
      Call call = g_array_index (live, Call, index);

      zs_placement_give (placement, call.address, call.bytes);
      g_array_remove_index_fast (live, index);
      continue;
    }
    if (i >= 3000)
      break;
    Call call = { true, 2 * MIB * g_rand_int_range (dice, 1, 60), 0 };
    call.address = zs_placement_take (placement, call.bytes);
    CU_ASSERT_EQUAL (call.address % (2 * MIB), 0);
    for (guint j = 0; j < live->len; j++) {
      const Call *other = &g_array_index (live, Call, j);

      CU_ASSERT_TRUE_FATAL (call.address + call.bytes <= other->address
                            || other->address + other->bytes <= call.address);
    }
    g_array_append_val (live, call);
  }
  while (live->len > 0) {
    Call call = g_array_index (live, Call, live->len - 1);

    zs_placement_give (placement, call.address, call.bytes);
    g_array_set_size (live, live->len - 1);
  }
  CU_ASSERT_EQUAL (zs_placement_digest (placement), before);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every recorded address is met", recorded_addresses_are_met },
    { "spans never overlap", spans_never_overlap },
    CU_TEST_INFO_NULL
  };

  return testing_main ("placement", tests);
}
