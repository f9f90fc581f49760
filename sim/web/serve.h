/* serve.h: the page live: every movement of a control simulates again.
 * SPDX-License-Identifier: MIT
 *
 * Serves 127.0.0.1 alone, and only requests that name it (so that no page of another origin can reach
 * it by a name of its own). GET of four paths: / the page, /run the data of one state, /scenario.yaml,
 * /ds_config.json. A state is a query of controls (controls.h). Nothing else of a request is used. */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "sim/scenario/scenario.h"

typedef struct {
  const char            *path;       /* of the scenario */
  const ZsScenarioFlags *flags;
  const char *const     *sets;       /* NULL-terminated */
  ZsCatalogue           *catalogue;
  int                    port;       /* 0: any that is free */
} ZsServeOptions;

typedef struct ZsServer ZsServer;

/* Begins to serve; the options are borrowed until zs_server_free ().  SCENARIO is what they load. */
ZsServer *zs_server_new  (const ZsServeOptions *options, const ZsScenario *scenario,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
void      zs_server_free (ZsServer *server);       /* ends requests that are being answered first */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsServer, zs_server_free)
int       zs_server_port (const ZsServer *server);
