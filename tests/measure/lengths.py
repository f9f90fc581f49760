# SPDX-License-Identifier: MIT
"""Lengths of samples as zerosim draws them for `sequence_lengths: {mean: ..., deviation: ...}` (sim/job/lengths.h),
in whole numbers: the same on every machine."""
import math

MASK = (1 << 64) - 1
LN_2 = 3196577161300663914      # ln 2 in units of 2^-62
TRIES = 4096


def mix(x):
    """SplitMix64 (Steele, Lea, Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def log2(n):
    """In units of 2^-32."""
    result = n.bit_length() - 1
    m = n << (62 - result)
    for _ in range(32):
        m = (m * m) >> 62
        result <<= 1
        if m >> 63:
            result |= 1
            m >>= 1
    return result


def exp2(x):
    """2^(x / 2^32) to the nearest whole number."""
    whole, y = x >> 32, ((x & 0xFFFFFFFF) * LN_2) >> 32
    total, term, n = 0, 1 << 62, 0
    while term:
        total += term
        n += 1
        term = ((term * y) >> 62) // n
    return ((total >> (61 - whole)) + 1) >> 1


def sample(mean, deviation, seed, micro_batch, which, attempt=0):
    place = mix(mix(mix(seed) ^ micro_batch) ^ (which | attempt << 32))
    z = 6 - 6 * (1 << 32)
    for i in range(6):
        bits = mix((place + i) & MASK)
        z += (bits & 0xFFFFFFFF) + (bits >> 32)
    z += ((((z * z) >> 32) * z >> 32) - 3 * z) // 240
    spread = log2(mean * mean + deviation * deviation) - 2 * log2(mean)
    sigma = math.isqrt(((spread << 32) // (LN_2 >> 30)) << 32)
    return max(1, exp2(log2(mean) - spread // 2 + ((z * sigma) >> 32)))


def samples(given, micro_batch, batch):
    """Of micro-batch number MICRO_BATCH (from 0), one a sample; GIVEN: mean, deviation, seed, cut; drop."""
    result = []
    for which in range(batch):
        for attempt in range(TRIES):
            n = sample(given["mean"], given["deviation"], given["seed"], micro_batch, which, attempt)
            if n <= given["cut"] or not given.get("drop"):
                break
        result.append(min(n, given["cut"]))
    return result


def padded(given, lengths):
    """What a collator makes of them."""
    multiple = given.get("multiple", 1)
    return (max(lengths) + multiple - 1) // multiple * multiple
