/* version.h: versions of the software that is simulated, and what changed with them.
 * SPDX-License-Identifier: MIT
 *
 * Code never compares versions; it asks for a behaviour by name.  A behaviour is one row of the table
 * in version.c: which software, in which releases it holds, and where that is known from.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* major.minor.patch as one number: 0.19.5 is 0 * 10^6 + 19 * 10^3 + 5. */
typedef int32_t ZsVersion;
#define ZS_VERSION(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))

typedef enum { ZS_SOFTWARE_DEEPSPEED, ZS_SOFTWARE_TORCH, ZS_SOFTWARE_TRANSFORMERS,
               ZS_SOFTWARE_NCCL, ZS_N_SOFTWARE } ZsSoftware;

typedef struct {
  ZsVersion of[ZS_N_SOFTWARE];
} ZsVersions;

typedef enum {
#define BEHAVIOUR(name, software, since, until, text) ZS_BEHAVIOUR_##name,
#include "sim/base/behaviours.def"
#undef BEHAVIOUR
  ZS_N_BEHAVIOURS
} ZsBehaviour;

/* Does BEHAVIOUR hold in VERSIONS? */
bool zs_behaves (const ZsVersions *versions, ZsBehaviour behaviour) G_GNUC_PURE;
/* What BEHAVIOUR means, in a sentence. */
const char *zs_behaviour_text (ZsBehaviour behaviour);

/* "0.19.5", "2.11", "0.14.4+cu121" (what follows the numbers is ignored). */
bool  zs_version_parse (const char *text, ZsVersion *ret_version);
/* free with g_free */
char *zs_version_format (ZsVersion version);
