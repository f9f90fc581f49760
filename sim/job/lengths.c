/* lengths.c: draws lengths in whole numbers.  SPDX-License-Identifier: MIT
 *
 * A standard normal number is the sum of twelve even ones, less 6, with the first term of its
 * Cornish-Fisher expansion (a sum of twelve has an excess kurtosis of -1/10).  The length is 2 to a power
 * that is linear in it: with L = log2 (1 + deviation^2 / mean^2), log2 (mean) - L / 2 + z sqrt (L / ln 2).
 * Logarithms, powers and roots are of fixed point, in units of 2^-32. */
#include "config.h"

#include "sim/job/lengths.h"

#define LN_2_62 INT64_C (3196577161300663914)   /* ln 2 in units of 2^-62 */
#define LN_2_32 (LN_2_62 >> 30)
#define ONE     (INT64_C (1) << 32)
/* A sample that is too long is drawn again so many times: where all are, they are cut after all. */
#define TRIES   4096

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t
mix (uint64_t x)
{
  x += UINT64_C (0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C (0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* By squaring: a bit each. */
static int64_t
binary_logarithm (uint64_t n)
{
  int whole = 63 - __builtin_clzll (n);
  uint64_t m = whole <= 62 ? n << (62 - whole) : n >> 1;
  int64_t result = whole;

  for (int bit = 0; bit < 32; bit++) {
    m = (uint64_t) ((unsigned __int128) m * m >> 62);
    result *= 2;
    if (m >> 63 != 0) {
      result++;
      m >>= 1;
    }
  }
  return result;
}

/* 2^X to the nearest whole number, by the series of e^y. */
static int64_t
binary_power (int64_t x)
{
  int64_t whole = x >> 32, y = (int64_t) ((__int128) (x & (ONE - 1)) * LN_2_62 >> 32);
  int64_t sum = 0, term = INT64_C (1) << 62;

  if (whole < 0)
    return 0;
  if (whole > 60)
    return INT64_MAX;
  for (int64_t n = 1; term > 0; n++) {
    sum += term;
    term = (int64_t) ((__int128) term * y >> 62) / n;
  }
  return ((sum >> (61 - whole)) + 1) >> 1;
}

static int64_t
square_root (unsigned __int128 n)
{
  unsigned __int128 root = 0, bit = (unsigned __int128) 1 << 126;

  while (bit > n)
    bit >>= 2;
  for (; bit != 0; bit >>= 2) {
    if (n >= root + bit) {
      n -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return (int64_t) root;
}

static int64_t
floor_divide (int64_t a, int64_t b)
{
  return a / b - (a % b < 0);
}

/* A standard normal number. */
static int64_t
normal (uint64_t place)
{
  int64_t z = 6 - 6 * ONE;     /* the middles of twelve intervals */

  for (uint64_t i = 0; i < 6; i++) {
    uint64_t bits = mix (place + i);

    z += (int64_t) (bits & UINT32_MAX) + (int64_t) (bits >> 32);
  }
  int64_t cube = (int64_t) ((__int128) ((int64_t) ((__int128) z * z >> 32)) * z >> 32);

  return z + floor_divide (cube - 3 * z, 240);
}

static int64_t
draw_sample (const ZsLengths *lengths, int64_t number, int64_t sample, int64_t attempt)
{
  uint64_t mean = (uint64_t) lengths->mean, deviation = (uint64_t) lengths->deviation;
  uint64_t place = mix (mix (lengths->seed) ^ (uint64_t) number);
  int64_t z = normal (mix (place ^ ((uint64_t) sample | (uint64_t) attempt << 32)));
  int64_t middle = binary_logarithm (mean);
  int64_t spread = binary_logarithm (mean * mean + deviation * deviation) - 2 * middle;
  int64_t sigma = square_root ((unsigned __int128) (((__int128) spread << 32) / LN_2_32) << 32);

  return MAX (1, binary_power (middle - spread / 2 + (int64_t) ((__int128) z * sigma >> 32)));
}

void
zs_lengths_draw (const ZsLengths *lengths, int64_t longest, int64_t batch, int64_t number,
                 ZsMicroBatch *ret_micro_batch)
{
  ZsMicroBatch drawn = { .sequence = 0 };
  int64_t shortest = INT64_MAX, multiple = MAX (lengths->multiple, 1);

  if (lengths->n_list > 0) {
    drawn.sequence = MIN (lengths->list[number % lengths->n_list], longest);
    drawn.tokens = batch * drawn.sequence;
  } else {
    for (int64_t sample = 0; sample < batch; sample++) {
      int64_t length = INT64_MAX;

      for (int64_t attempt = 0; attempt < TRIES && length > longest; attempt++) {
        length = draw_sample (lengths, number, sample, attempt);
        if (!lengths->drop)
          break;
      }
      length = MIN (length, longest);
      drawn.sequence = MAX (drawn.sequence, length);
      shortest = MIN (shortest, length);
      drawn.tokens += length;
    }
    drawn.padded = shortest < drawn.sequence;
  }
  drawn.sequence = (drawn.sequence + multiple - 1) / multiple * multiple;
  drawn.padded |= drawn.tokens < batch * drawn.sequence;
  *ret_micro_batch = drawn;
}
