/* explain-internal.h: facts, from which sentences are made; for sim/report/explain*.c alone.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/report/explain.h"

typedef enum {
#define SECTION(id, en, zh)
#define SENTENCE(section, levels, when, en, zh)
#define PHRASE(id, en, zh) ZS_PHRASE_##id,
#include "sim/report/explain-sentences.def"
#undef SECTION
#undef SENTENCE
#undef PHRASE
  ZS_N_PHRASES
} ZsPhrase;

typedef struct {
  ZsLanguage  language;
  GHashTable *facts;       /* name (static) to text (owned) */
  GHashTable *lists;       /* name (static) to GPtrArray of GHashTable like `facts` */
} ZsFacts;

void zs_facts_init  (ZsFacts *facts, const ZsExplainInput *input, ZsLanguage language);
void zs_facts_clear (ZsFacts *facts);

/* TEXT with its {names} replaced from ROW (may be NULL) and FACTS; NULL if one is missing. */
char *zs_facts_fill (const ZsFacts *facts, GHashTable *row, const char *text);

/* KEY in LANGUAGE; KEY itself if there is no such word. */
const char *zs_explain_word   (const char *key, ZsLanguage language);
const char *zs_explain_phrase (ZsPhrase phrase, ZsLanguage language);
