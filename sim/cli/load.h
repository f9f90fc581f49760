/* load.h: from the command line to a scenario.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/cli/options.h"
#include "sim/scenario/scenario.h"

/* The flags of OPTIONS as the scenario's reader takes them; strings are borrowed. */
ZsScenarioFlags zs_flags_of (const ZsOptions *options);
/* The --set of OPTIONS and of the flags that are settings by another name; free with g_strfreev. */
char **zs_sets_of (const ZsOptions *options);

/* Loads PATH; on failure all errors have been printed. */
ZsScenario *zs_load_scenario (const char *path, const ZsOptions *options, ZsCatalogue *catalogue);
