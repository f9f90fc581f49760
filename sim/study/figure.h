/* figure.h: the data of the figures in plots/, as tables for gnuplot.
 * SPDX-License-Identifier: MIT
 *
 * Each function writes tab-separated rows to DATA, and assignments of variables (title, names, ranges) to
 * SETTINGS, a gnuplot script that runs before the figure's own.  Blocks of a table are parted by two empty
 * lines, as gnuplot's `index` counts them. */
#pragma once

#include <stdio.h>

#include "sim/network/nccl.h"
#include "sim/run/result.h"
#include "sim/study/store.h"

/* Strings for gnuplot: in single quotes. */
void zs_figure_set_text   (GString *settings, const char *name, const char *value);
void zs_figure_set_number (GString *settings, const char *name, double value);

/* Allocated bytes by category over the step in which the peak is (want_memory_events), in order of
 * their size at the peak, the largest lowest. */
void zs_figure_memory   (const ZsResult *result, FILE *data, GString *settings);
/* Bars of all tracks over the steady step (want_spans). */
void zs_figure_timeline (const ZsResult *result, FILE *data, GString *settings);
/* What a step's time went to: one block a result, named by NAMES. */
void zs_figure_step     (ZsResult *const *results, const char *const *names, int n, FILE *data,
                         GString *settings);

/* Figures of a sweep.  X, Y and BY are axes, VALUE a column of results; NULL: chosen.  Where the sweep has more
 * axes, each point is the fastest configuration that fits over those. */
typedef struct {
  const char *x, *y, *by, *value;
} ZsFigureAxes;

bool zs_figure_curve  (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings,
                       GError **error);
bool zs_figure_heat   (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings,
                       GError **error);
bool zs_figure_pareto (ZsStore *store, FILE *data, GString *settings, GError **error);

/* Bandwidth over size: one block an operation. */
void zs_figure_collective (const ZsComm *comm, const ZsCollectiveKind *kinds, int n_kinds,
                           const int64_t *sizes, int n_sizes, FILE *data, GString *settings);
