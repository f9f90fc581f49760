/* digest.h: one number for a state, to tell whether two states are equal.
 * SPDX-License-Identifier: MIT
 *
 * Compared within one process only: bytes of structures, pointers among them, may go in.  Equal states
 * have equal digests; different ones differ but for one chance in 2^64.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* DIGEST with VALUE after it.  (The multiplier is 2^64 / the golden ratio, as in Knuth's hash.) */
static inline uint64_t
zs_digest_add (uint64_t digest, uint64_t value)
{
  uint64_t mixed = (digest ^ value) * UINT64_C (0x9e3779b97f4a7c15);

  return mixed ^ mixed >> 29;
}

/* DIGEST with N BYTES after it; NULL: none. */
static inline uint64_t
zs_digest_bytes (uint64_t digest, const void *bytes, size_t n)
{
  const unsigned char *at = bytes;
  uint64_t word, other = zs_digest_add (0, n + 1);

  /* two chains, so that one does not wait for the other */
  for (; n >= 16; n -= 16, at += 16) {
    memcpy (&word, at, 8);
    digest = zs_digest_add (digest, word);
    memcpy (&word, at + 8, 8);
    other = zs_digest_add (other, word);
  }
  for (; n > 0; n--, at++)
    digest = zs_digest_add (digest, *at);
  return zs_digest_add (digest, other);
}

/* DIGEST with N items of an array. */
#define zs_digest_items(digest, items, n) zs_digest_bytes (digest, items, (size_t) (n) * sizeof *(items))
