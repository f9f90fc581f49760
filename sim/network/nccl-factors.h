/* nccl-factors.h: measured time / base time, by class of link and size.
 * SPDX-License-Identifier: MIT
 *
 * Written by tests/network/fit-collectives.py from tests/data/network/nccl-measured.csv: results of
 * nccl-tests that others published.  Medians over the systems of a class, each counted once, drawn towards
 * 1; a size that no system has takes the nearest.  Three rows a class: LL and LL128, Simple, NVLS. */
#pragma once

#define FACTOR_FIRST_SIZE 12   /* 4 KiB */
#define FACTOR_STEP       2    /* four times as large */
#define FACTOR_SIZES      10

static const double FACTORS[][FACTOR_SIZES] = {
  /*4 KiB 16 KiB 64 KiB 256 KiB 1 MiB 4 MiB 16 MiB 64 MiB 256 MiB 1 GiB */
  { 1.00, 1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.01, 1.01, 1.01 },   /* NVSwitch: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.04, 1.04, 1.04, 1.04, 1.05 },   /* NVSwitch: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.08, 1.16, 1.18, 1.16, 1.05, 1.02 },   /* NVSwitch: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.03, 1.03, 1.03, 1.01, 1.01, 1.01 },   /* NVLink mesh: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.00, 1.00, 0.99 },   /* NVLink mesh: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.00, 1.00, 0.99 },   /* NVLink mesh: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92 },   /* NVLink bridge: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92 },   /* NVLink bridge: Simple */
  { 1.00, 1.00, 1.00, 1.00, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92 },   /* NVLink bridge: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.51, 1.03, 1.03, 1.03, 1.03, 1.03 },   /* PCIe peer access: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.28, 0.99, 0.99, 0.99, 0.99, 0.99 },   /* PCIe peer access: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.28, 0.99, 0.99, 0.99, 0.99, 0.99 },   /* PCIe peer access: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.17, 1.08, 1.08, 1.08, 1.08, 1.08 },   /* host memory: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.10, 1.10, 1.12, 1.14, 1.14, 1.08 },   /* host memory: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.10, 1.10, 1.12, 1.14, 1.14, 1.08 },   /* host memory: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 0.90, 0.80, 0.83, 0.82, 0.92, 0.92 },   /* InfiniBand, RoCE: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.86, 0.89, 1.01, 1.05, 1.06, 1.06 },   /* InfiniBand, RoCE: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.26, 1.27, 1.28, 1.21, 1.09, 1.06 },   /* InfiniBand, RoCE: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 2.88, 2.52, 1.77, 1.77, 1.77, 1.77 },   /* Slingshot: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.14, 1.23, 1.26, 1.10, 0.99, 0.96 },   /* Slingshot: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.14, 1.23, 1.26, 1.10, 0.99, 0.96 },   /* Slingshot: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.09, 1.48, 1.36, 1.16, 1.08, 1.02 },   /* EFA: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.27, 1.49, 1.64, 1.29, 1.06, 1.06 },   /* EFA: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.13, 1.21, 1.29, 1.27, 1.12, 1.06 },   /* EFA: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.46, 1.20, 1.20, 1.20, 1.20, 1.20 },   /* TCP: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.18, 1.14, 1.11, 1.09, 1.09, 1.08 },   /* TCP: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.35, 1.55, 1.69, 1.49, 1.13, 1.00 },   /* TCP: NVLS */
};

/* Median error from 1 MiB of systems that the factors were made without, by class. */
static const double EXPECTED_ERRORS[] = { 0.05, 0.11, 0.19, 0.20, 0.17, 0.09, 0.16, 0.16, 0.28 };
