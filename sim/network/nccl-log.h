/* nccl-log.h: what nccl-tests printed.
 * SPDX-License-Identifier: MIT
 *
 * Reads the text of all versions: with and without `root`, prefixed by MPI, with NCCL's own messages in
 * between.  Times are of the out-of-place half. */
#pragma once

#include "sim/network/nccl.h"

typedef struct {
  int64_t bytes;
  ZsTime  time, time_in_place;    /* 0: not there */
  double  algbw, busbw;           /* as printed, GB/s */
  int     line;
} ZsNcclLogRow;

typedef struct {
  bool             kind_known;
  ZsCollectiveKind kind;
  int              n_ranks;       /* 0 unknown */
  int              per_thread;    /* GPUs that one thread drives (nccl-tests -g); 0 unknown */
  ZsVersion        version;       /* of NCCL, 0 unknown */
  GArray          *rows;          /* of ZsNcclLogRow, in order; zero sizes left out */
  GPtrArray       *warnings;      /* of char * */
} ZsNcclLog;

/* FILE names it in messages; LENGTH -1: up to the NUL.  NULL and ERROR if it has no row. */
ZsNcclLog *zs_nccl_log_parse (const char *file, const char *text, gssize length,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
ZsNcclLog *zs_nccl_log_load  (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void       zs_nccl_log_free  (ZsNcclLog *log);

/* What the test itself adds to every time, where one thread drives PER_THREAD GPUs: it launches on one after the
 * other.  About 3 us each: an 8-GPU box of V100 needs 33 us more than the model, of RTX 4090 23, of four 8. */
ZsTime     zs_nccl_log_launches (int per_thread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsNcclLog, zs_nccl_log_free)
