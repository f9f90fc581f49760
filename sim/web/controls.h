/* controls.h: what the live page lets a person change: a table of settings with the values each may have.
 * SPDX-License-Identifier: MIT
 *
 * A request can only choose among these values: no text of a client reaches a reader of files. */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/scenario/scenario.h"

typedef struct ZsControls ZsControls;

/* Controls for SCENARIO; CATALOGUE lists models, GPUs and fabrics. */
ZsControls *zs_controls_new  (const ZsScenario *scenario,
                              ZsCatalogue *catalogue) G_GNUC_WARN_UNUSED_RESULT;
void        zs_controls_free (ZsControls *controls);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsControls, zs_controls_free)

/* "PATH=VALUE" for NAME=VALUE of a request: g_free it; NULL where there is no such control or value. */
char *zs_controls_set   (const ZsControls *controls, const char *name, const char *value);
/* The rows, as an array under KEY. */
void  zs_controls_write (const ZsControls *controls, const char *key, ZsJsonWriter *writer);
