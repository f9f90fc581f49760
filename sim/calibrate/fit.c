/* fit.c: least squares in the logarithm.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/calibrate/fit.h"

#include <glib.h>
#include <math.h>

#define ROUNDS 24   /* over all factors */
#define STEPS  40   /* of the golden section: the interval shrinks by 4e-9 */

static double
cost (ZsFitRatio ratio, const void *self, int n_measured, const ZsFitFactor *specs, int n_factors, const double *factors,
      double *ret_weight)
{
  double sum = 0, all = 0;

  for (int i = 0; i < n_measured; i++) {
    double weight = 1, log_ratio = log (ratio (self, i, factors, &weight));

    sum += weight * log_ratio * log_ratio;
    all += weight;
  }
  *ret_weight = all > 0 ? sum / all : 0;
  for (int k = 0; k < n_factors; k++)
    sum += specs[k].prior * log (factors[k]) * log (factors[k]);
  return sum;
}

double
zs_fit (ZsFitRatio ratio, const void *self, int n_measured, const ZsFitFactor *specs, int n_factors, double *factors)
{
  const double golden = (sqrt (5) - 1) / 2;
  double mean;

  for (int round = 0; round < ROUNDS; round++)
    for (int k = 0; k < n_factors; k++) {
      if (specs[k].fixed)
        continue;
      g_assert (specs[k].low > 0 && specs[k].high > specs[k].low);
      double low = log (specs[k].low), high = log (specs[k].high);
      double a = high - golden * (high - low), b = low + golden * (high - low);

      factors[k] = exp (a);
      double at_a = cost (ratio, self, n_measured, specs, n_factors, factors, &mean);

      factors[k] = exp (b);
      double at_b = cost (ratio, self, n_measured, specs, n_factors, factors, &mean);

      for (int step = 0; step < STEPS; step++) {
        if (at_a <= at_b) {
          high = b;
          b = a;
          at_b = at_a;
          a = high - golden * (high - low);
          factors[k] = exp (a);
          at_a = cost (ratio, self, n_measured, specs, n_factors, factors, &mean);
        }
        else {
          low = a;
          a = b;
          at_a = at_b;
          b = low + golden * (high - low);
          factors[k] = exp (b);
          at_b = cost (ratio, self, n_measured, specs, n_factors, factors, &mean);
        }
      }
      factors[k] = exp ((low + high) / 2);
    }
  cost (ratio, self, n_measured, specs, n_factors, factors, &mean);
  return sqrt (mean);
}
