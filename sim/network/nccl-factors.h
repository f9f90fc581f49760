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
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.04, 1.04, 1.04, 1.04, 1.04 },   /* NVSwitch: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.04, 1.04, 1.04, 1.04, 1.04 },   /* NVSwitch: Simple */
  { 1.00, 1.00, 1.00, 1.00, 0.94, 1.01, 1.03, 1.01, 1.01, 1.02 },   /* NVSwitch: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.02, 1.03, 1.01, 1.01, 1.01, 1.01 },   /* NVLink mesh: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.00, 0.99, 1.02 },   /* NVLink mesh: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.01, 1.01, 1.01, 1.00, 0.99, 1.02 },   /* NVLink mesh: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 0.94, 0.94, 0.94, 0.94, 0.94, 0.94 },   /* NVLink bridge: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.94, 0.94, 0.94, 0.94, 0.94, 0.94 },   /* NVLink bridge: Simple */
  { 1.00, 1.00, 1.00, 1.00, 0.94, 0.94, 0.94, 0.94, 0.94, 0.94 },   /* NVLink bridge: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.03, 1.03, 1.03, 1.03, 1.03, 1.03 },   /* PCIe peer access: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.19, 0.97, 0.95, 0.99, 0.99, 1.06 },   /* PCIe peer access: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.19, 0.97, 0.95, 0.99, 0.99, 1.06 },   /* PCIe peer access: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.03, 1.03, 1.03, 1.03, 1.03, 1.03 },   /* host memory: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.97, 0.97, 0.97, 0.97, 0.99, 0.99 },   /* host memory: Simple */
  { 1.00, 1.00, 1.00, 1.00, 0.97, 0.97, 0.97, 0.97, 0.99, 0.99 },   /* host memory: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 0.99, 0.97, 0.95, 0.97, 0.97, 0.97 },   /* InfiniBand, RoCE: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.99, 0.97, 0.95, 0.97, 0.97, 0.97 },   /* InfiniBand, RoCE: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.13, 1.02, 1.08, 1.10, 1.05, 1.00 },   /* InfiniBand, RoCE: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 0.93, 0.95, 0.95, 0.95, 0.95, 0.95 },   /* Slingshot: LL */
  { 1.00, 1.00, 1.00, 1.00, 0.92, 0.94, 0.94, 0.99, 0.97, 0.99 },   /* Slingshot: Simple */
  { 1.00, 1.00, 1.00, 1.00, 0.92, 0.94, 0.94, 0.99, 0.97, 0.99 },   /* Slingshot: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.07, 1.17, 1.09, 1.10, 1.05, 1.00 },   /* EFA: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.05, 1.02, 0.99, 0.99, 1.00 },   /* EFA: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.05, 1.02, 0.99, 0.99, 1.00 },   /* EFA: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.11, 1.03, 1.03, 1.03, 1.03, 1.03 },   /* TCP: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.02, 1.04, 1.02, 1.00, 1.00, 1.01 },   /* TCP: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.02, 1.04, 1.02, 1.00, 1.00, 1.01 },   /* TCP: NVLS */
  { 1.00, 1.00, 1.00, 1.00, 1.04, 1.04, 1.04, 1.04, 1.04, 1.04 },   /* InfiniBand, RoCE by the host: LL */
  { 1.00, 1.00, 1.00, 1.00, 1.07, 1.02, 1.05, 1.09, 1.14, 1.16 },   /* InfiniBand, RoCE by the host: Simple */
  { 1.00, 1.00, 1.00, 1.00, 1.07, 1.02, 1.05, 1.09, 1.14, 1.16 },   /* InfiniBand, RoCE by the host: NVLS */
};

/* Median error from 1 MiB of systems that the factors were made without, by class. */
static const double EXPECTED_ERRORS[] = { 0.05, 0.10, 0.19, 0.19, 0.05, 0.06, 0.06, 0.05, 0.05, 0.14 };
