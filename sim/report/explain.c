/* explain.c: from facts to sentences.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/explain-internal.h"

#include <string.h>

#define B  (1 << ZS_EXPLAIN_BEGINNER)
#define X  (1 << ZS_EXPLAIN_EXPERT)
#define BX (B | X)

typedef struct {
  const char *text[ZS_N_LANGUAGES];
} Texts;

enum {
#define SECTION(id, en, zh) SECTION_##id,
#define SENTENCE(section, levels, when, en, zh)
#define PHRASE(id, en, zh)
#include "sim/report/explain-sentences.def"
#undef SECTION
#undef SENTENCE
#undef PHRASE
  N_SECTIONS
};

static const Texts SECTIONS[] = {
#define SECTION(id, en, zh) [SECTION_##id] = { { en, zh } },
#define SENTENCE(section, levels, when, en, zh)
#define PHRASE(id, en, zh)
#include "sim/report/explain-sentences.def"
#undef SECTION
#undef SENTENCE
#undef PHRASE
};

static const struct {
  int         section, levels;
  const char *when;
  Texts       texts;
} SENTENCES[] = {
#define SECTION(id, en, zh)
#define SENTENCE(section, levels, when, en, zh) { SECTION_##section, levels, when, { { en, zh } } },
#define PHRASE(id, en, zh)
#include "sim/report/explain-sentences.def"
#undef SECTION
#undef SENTENCE
#undef PHRASE
};

static const Texts PHRASES[] = {
#define SECTION(id, en, zh)
#define SENTENCE(section, levels, when, en, zh)
#define PHRASE(id, en, zh) { { en, zh } },
#include "sim/report/explain-sentences.def"
#undef SECTION
#undef SENTENCE
#undef PHRASE
};

static const struct {
  const char *key;
  Texts       texts;
} WORDS[] = {
#define WORD(key, en, zh) { key, { { en, zh } } },
#include "sim/report/explain-words.def"
#undef WORD
};

static const char *const LANGUAGES[ZS_N_LANGUAGES] = { "en", "zh" };
static const char *const LEVELS[ZS_N_EXPLAIN_LEVELS] = { "beginner", "expert" };

const char *
zs_language_code (ZsLanguage language)
{
  return LANGUAGES[language];
}

const char *
zs_explain_level_name (ZsExplainLevel level)
{
  return LEVELS[level];
}

static bool
find (const char *const *names, int n, const char *name, int *ret_index)
{
  for (int i = 0; i < n; i++)
    if (g_ascii_strcasecmp (names[i], name) == 0) {
      *ret_index = i;
      return true;
    }
  return false;
}

bool
zs_language_find (const char *code, ZsLanguage *ret_language)
{
  int index;

  if (!find (LANGUAGES, ZS_N_LANGUAGES, code, &index))
    return false;
  *ret_language = index;
  return true;
}

bool
zs_explain_level_find (const char *name, ZsExplainLevel *ret_level)
{
  int index;

  if (!find (LEVELS, ZS_N_EXPLAIN_LEVELS, name, &index))
    return false;
  *ret_level = index;
  return true;
}

const char *
zs_explain_word (const char *key, ZsLanguage language)
{
  for (size_t w = 0; w < G_N_ELEMENTS (WORDS); w++)
    if (strcmp (WORDS[w].key, key) == 0)
      return WORDS[w].texts.text[language];
  return key;
}

const char *
zs_explain_phrase (ZsPhrase phrase, ZsLanguage language)
{
  return PHRASES[phrase].text[language];
}

int
zs_explain_n_sentences (void)
{
  return G_N_ELEMENTS (SENTENCES);
}

const char *
zs_explain_template (int sentence, ZsLanguage language)
{
  return SENTENCES[sentence].texts.text[language];
}

char *
zs_facts_fill (const ZsFacts *facts, GHashTable *row, const char *text)
{
  GString *filled = g_string_new (NULL);

  while (*text != '\0') {
    const char *end = *text == '{' ? strchr (text, '}') : NULL;

    if (end == NULL) {
      g_string_append_c (filled, *text++);
      continue;
    }
    g_autofree char *name = g_strndup (text + 1, (gsize) (end - text - 1));
    const char *value = row != NULL ? g_hash_table_lookup (row, name) : NULL;

    if (value == NULL)
      value = g_hash_table_lookup (facts->facts, name);
    if (value == NULL) {
      g_string_free (filled, TRUE);
      return NULL;
    }
    g_string_append (filled, value);
    text = end + 1;
  }
  return g_string_free (filled, FALSE);
}

/* Do the facts of WHEN hold?  *RET_LIST is what the sentence is repeated for. */
static bool
holds (const ZsFacts *facts, const char *when, GPtrArray **ret_list)
{
  g_auto (GStrv) names = g_strsplit (when, " ", -1);

  *ret_list = NULL;
  for (char **name = names; *name != NULL; name++) {
    if (**name == '@') {
      *ret_list = g_hash_table_lookup (facts->lists, *name + 1);
      if (*ret_list == NULL)
        return false;
    } else if (**name == '!') {
      if (g_hash_table_contains (facts->facts, *name + 1))
        return false;
    } else if (**name != '\0' && !g_hash_table_contains (facts->facts, *name)) {
      return false;
    }
  }
  return true;
}

static void
free_section (gpointer data)
{
  ZsStorySection *section = data;

  g_ptr_array_unref (section->sentences);
  g_free (section);
}

static void
add_sentence (ZsStorySection *section, char *sentence)
{
  if (sentence != NULL)
    g_ptr_array_add (section->sentences, sentence);
}

GPtrArray *
zs_explain (const ZsExplainInput *input, ZsExplainLevel level, ZsLanguage language)
{
  GPtrArray *story = g_ptr_array_new_with_free_func (free_section);
  ZsFacts facts;

  zs_facts_init (&facts, input, language);
  for (int s = 0; s < N_SECTIONS; s++) {
    ZsStorySection *section = g_new0 (ZsStorySection, 1);

    section->title = SECTIONS[s].text[language];
    section->sentences = g_ptr_array_new_with_free_func (g_free);
    for (size_t i = 0; i < G_N_ELEMENTS (SENTENCES); i++) {
      const char *text = SENTENCES[i].texts.text[language];
      GPtrArray *list;

      if (SENTENCES[i].section != s || (SENTENCES[i].levels & 1 << level) == 0
          || !holds (&facts, SENTENCES[i].when, &list))
        continue;
      if (list == NULL)
        add_sentence (section, zs_facts_fill (&facts, NULL, text));
      for (guint row = 0; list != NULL && row < list->len; row++)
        add_sentence (section, zs_facts_fill (&facts, g_ptr_array_index (list, row), text));
    }
    if (section->sentences->len == 0) {
      free_section (section);
      continue;
    }
    g_ptr_array_add (section->sentences, NULL);
    g_ptr_array_add (story, section);
  }
  zs_facts_clear (&facts);
  return story;
}
