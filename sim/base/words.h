/* words.h: the valid word that a misspelt one was meant to be.  SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* Edit distance of two words: insertions, deletions, changes and swaps of neighbours count 1 each,
 * case does not count.  Only the first 128 bytes are looked at. */
int zs_word_distance (const char *a, const char *b);

/* The word of the NULL-terminated WORDS that is nearest to WORD, or NULL if none is near: at most a
 * third of its letters differ, or one begins with the other.  Among equals the first. */
const char *zs_nearest_word (const char *word, const char *const *words);
/* "; did you mean 'x'?" as the end of a message, or ""; free with g_free. */
char       *zs_nearest_hint (const char *word, const char *const *words);
