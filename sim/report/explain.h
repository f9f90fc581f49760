/* explain.h: the story of one step in plain words and numbers, for a reader who is learning.
 * SPDX-License-Identifier: MIT
 *
 * Every number comes from the run. The sentences are the rows of explain-sentences.def and the words
 * those of explain-words.def, with one column for each language: a new language is a new column. */
#pragma once

#include "sim/report/summary.h"
#include "sim/scenario/scenario.h"

typedef enum { ZS_LANGUAGE_EN, ZS_LANGUAGE_ZH, ZS_N_LANGUAGES } ZsLanguage;
typedef enum { ZS_EXPLAIN_BEGINNER, ZS_EXPLAIN_EXPERT, ZS_N_EXPLAIN_LEVELS } ZsExplainLevel;

typedef struct {
  const ZsScenario *scenario;
  const ZsResult   *result;      /* with spans and links; without spans it says less */
  const ZsChange   *changes;     /* that were tried; may be NULL */
  int               n_changes;
} ZsExplainInput;

typedef struct {
  const char *title;             /* static */
  GPtrArray  *sentences;         /* of char *; a NULL at the end is in len too */
} ZsStorySection;

/* Sections (ZsStorySection *) in their order; those without a sentence are left out. */
GPtrArray *zs_explain (const ZsExplainInput *input, ZsExplainLevel level,
                       ZsLanguage language) G_GNUC_WARN_UNUSED_RESULT;

const char *zs_language_code (ZsLanguage language);             /* "en" */
const char *zs_explain_level_name (ZsExplainLevel level);       /* "beginner" */
/* False if there is none of that name. */
bool zs_language_find (const char *code, ZsLanguage *ret_language);
bool zs_explain_level_find (const char *name, ZsExplainLevel *ret_level);

/* ---- for tests: the texts as they are in the table ---- */
int         zs_explain_n_sentences (void);
const char *zs_explain_template (int sentence, ZsLanguage language);
