/* base.h: one scenario, read once, and run many times with changes.
 * SPDX-License-Identifier: MIT
 *
 * A study of thousands of configurations reads its file once and shares the tree between threads; a
 * change is what `--set` takes: "PATH=VALUE". */
#pragma once

#include "sim/run/run.h"
#include "sim/scenario/scenario.h"

typedef struct ZsBase ZsBase;

/* The scenario or ds_config at PATH.  FLAGS and SETS (NULL-terminated) may be NULL; they and CATALOGUE
 * are borrowed.  NULL and ERRORS if the file cannot be read; whether it is a whole scenario is seen when a
 * configuration is read. */
ZsBase *zs_base_new  (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
                      ZsCatalogue *catalogue, ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
/* The same from a tree inside another file (zs_scenario_tree_complete () was called), which is borrowed. */
ZsBase *zs_base_new_tree (const ZsNode *root, const char *file, const ZsScenarioFlags *flags,
                          const char *const *sets,
                          ZsCatalogue *catalogue) G_GNUC_WARN_UNUSED_RESULT;
void    zs_base_free (ZsBase *base);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsBase, zs_base_free)

/* Everything that the base says, as one text: two bases with the same text give the same results.  Files
 * that the scenario names (a config.json, a topology) are in it by their path.  Free with g_free. */
char       *zs_base_text (const ZsBase *base);
/* What the scenario's files and flags say at the dotted PATH (full, or short as for --set); NULL if nothing.
 * Free with g_free. */
char       *zs_base_setting (const ZsBase *base, const char *path);

/* With CHANGES (NULL-terminated; may be NULL) on top.  Any thread. */
ZsScenario *zs_base_scenario (const ZsBase *base, const char *const *changes,
                              ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
/* The same, and run with OPTIONS (NULL: the usual).  *RET_SCENARIO (may be NULL) gets the scenario. */
ZsResult   *zs_base_run (const ZsBase *base, const char *const *changes, const ZsRunOptions *options,
                         ZsScenario **ret_scenario, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* NODE as text on one line that YAML reads back as the same value; free with g_free. */
char *zs_node_text (const ZsNode *node);
