/* fit.h: factors that bring predictions near measurements.
 * SPDX-License-Identifier: MIT
 *
 * Least squares of ln (predicted / measured), each factor held between bounds and drawn towards 1, as one measurement
 * that met the model would draw it.  One factor after the other by golden section, a fixed number of times: the same
 * numbers on every machine. */
#pragma once

#include <stdbool.h>

/* Predicted / measured of measurement I with FACTORS; WEIGHT is its part of the sum. */
typedef double (*ZsFitRatio) (const void *self, int i, const double *factors, double *ret_weight);

typedef struct {
  double low, high;      /* bounds; > 0 */
  double prior;          /* weight of 1 */
  bool   fixed;          /* stays as it is */
} ZsFitFactor;

/* FACTORS holds the start and gets the answer.  Returns the root of the mean square of ln ratio. */
double zs_fit (ZsFitRatio ratio, const void *self, int n_measured, const ZsFitFactor *specs, int n_factors,
               double *factors);
