/* bandwidth-log.h: what nvbandwidth and bandwidthTest printed: copies between the host and each GPU.
 * SPDX-License-Identifier: MIT
 *
 * Only pinned copies by copy engine in one direction at a time are read (nvbandwidth: host_to_device_memcpy_ce,
 * device_to_host_memcpy_ce; bandwidthTest: PINNED Memory Transfers).  Other tests of the same text are passed over. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/time.h"

typedef struct {
  GArray *to_gpu, *to_host;   /* of ZsRate, one for each GPU or line */
} ZsBandwidthLog;

/* Is TEXT of that kind? */
bool            zs_bandwidth_log_is  (const char *text);
/* FILE names it in messages.  NULL and ERROR if there is no rate in it. */
ZsBandwidthLog *zs_bandwidth_log_parse (const char *file, const char *text, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void            zs_bandwidth_log_free (ZsBandwidthLog *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsBandwidthLog, zs_bandwidth_log_free)
