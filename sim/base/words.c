/* words.c: edit distance (optimal string alignment).  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/words.h"

#include <string.h>

#define LONGEST 128

int
zs_word_distance (const char *a, const char *b)
{
  int before[LONGEST + 1], last[LONGEST + 1], row[LONGEST + 1];
  int n_a = (int)strnlen (a, LONGEST), n_b = (int)strnlen (b, LONGEST);

  for (int j = 0; j <= n_b; j++)
    last[j] = j;
  memcpy (before, last, sizeof before);
  for (int i = 1; i <= n_a; i++) {
    row[0] = i;
    for (int j = 1; j <= n_b; j++) {
      char x = g_ascii_tolower (a[i - 1]), y = g_ascii_tolower (b[j - 1]);
      int best = last[j - 1] + (x != y);

      best = MIN (best, last[j] + 1);
      best = MIN (best, row[j - 1] + 1);
      if (i > 1 && j > 1 && x == g_ascii_tolower (b[j - 2]) && y == g_ascii_tolower (a[i - 2]))
        best = MIN (best, before[j - 2] + 1);
      row[j] = best;
    }
    memcpy (before, last, sizeof before);
    memcpy (last, row, sizeof last);
  }
  return last[n_b];
}

const char *
zs_nearest_word (const char *word, const char *const *words)
{
  const char *nearest = NULL;
  int nearest_distance = G_MAXINT;
  int length = (int)strnlen (word, LONGEST);

  for (; *words != NULL; words++) {
    int other = (int)strnlen (*words, LONGEST);
    int distance = zs_word_distance (word, *words);
    bool begins = MIN (length, other) >= 3
                  && g_ascii_strncasecmp (word, *words, (gsize)MIN (length, other)) == 0;

    if (distance < nearest_distance && (distance <= MAX (1, MAX (length, other) / 3) || begins)) {
      nearest = *words;
      nearest_distance = distance;
    }
  }
  return nearest;
}

char *
zs_nearest_hint (const char *word, const char *const *words)
{
  const char *nearest = zs_nearest_word (word, words);

  return nearest != NULL ? g_strdup_printf ("; did you mean '%s'?", nearest) : g_strdup ("");
}
