/* units.h: sizes, rates, times and counts as people write them.
 * SPDX-License-Identifier: MIT
 *
 * The unit is always written: 80 GiB is not 80 GB, 400 Gb/s (bits) is not 400 GB/s.  A number without
 * a unit is taken only if it is 0.  Fractions are read exactly and rounded once, to nearest, ties to
 * even.  Everything is checked for overflow; on failure the output is untouched and ERROR says what
 * would be right.  Numbers are printed the same under every locale.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/time.h"

/* "80 GiB", "1.5KiB", "512 MB", "8 B", "2e3 MiB" */
bool zs_bytes_parse (const char *text, int64_t *ret_bytes, GError **error);
/* "25 GB/s", "23 GiB/s", "400 Gb/s", "200 Gbit/s", "100 Gbps" */
bool zs_rate_parse  (const char *text, ZsRate *ret_rate, GError **error);
/* "5 us", "3 ms", "2 s", "1.5 min", "1 h", "40 ns", "100 ps" */
bool zs_time_parse  (const char *text, ZsTime *ret_time, GError **error);
/* A whole number, also as "5e8", "1E+9" or "2.0"; not "1.5", not "0x10", no unit. */
bool zs_count_parse (const char *text, int64_t *ret_count, GError **error);
/* A finite decimal number with `.` under every locale. */
bool zs_number_parse (const char *text, double *ret_number, GError **error);
/* A size as nccl-tests takes it: "8", "1M", "8G" (powers of two), or with a unit as above. */
bool zs_message_size_parse (const char *text, int64_t *ret_bytes, GError **error);

/* At most two decimals, in the largest unit that leaves at least 1: "80 GiB", "39.39 GiB", "0 B".
 * Free with g_free. */
char *zs_bytes_format (int64_t bytes);
/* "25 GB/s" (powers of ten) */
char *zs_rate_format (ZsRate rate);
/* four digits that count: "1.234 s", "12.5 ms", "900 ns" */
char *zs_time_format (ZsTime time);
/* "6,738,415,616" */
char *zs_count_format (int64_t count);
