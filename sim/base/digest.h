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

/* What lies between the members of a structure is whatever was there when it was assigned: it is cleared
 * in a copy.  (Where the compiler cannot, equal states may look different, which costs time alone.) */
#if defined __has_builtin
#if __has_builtin (__builtin_clear_padding)
#define ZS_CLEAR_PADDING(pointer) __builtin_clear_padding (pointer)
#endif
#endif
#ifndef ZS_CLEAR_PADDING
#define ZS_CLEAR_PADDING(pointer) ((void) (pointer))
#endif
#define ZS_DIGEST_RECORD 12   /* of __builtin_classify_type (): a structure (gcc/typeclass.h) */

/* DIGEST with N items of an array; NULL: none. */
#define zs_digest_items(digest, items, n)                                                          \
  (__extension__ ({                                                                                \
    uint64_t digest_ = (digest);                                                                   \
    size_t n_ = (size_t) (n);                                                                      \
    const __typeof__ (*(items)) *items_ = (items);                                                 \
                                                                                                   \
    if (__builtin_classify_type (*items_) != ZS_DIGEST_RECORD)                                     \
      digest_ = zs_digest_bytes (digest_, items_, n_ * sizeof *items_);                            \
    else                                                                                           \
      for (size_t i_ = 0; i_ < n_; i_++) {                                                         \
        __auto_type copy_ = items_[i_];                                                            \
                                                                                                   \
        ZS_CLEAR_PADDING (&copy_);                                                                 \
        digest_ = zs_digest_bytes (digest_, &copy_, sizeof copy_);                                 \
      }                                                                                            \
    digest_;                                                                                       \
  }))
