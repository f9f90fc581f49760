/* command-serve.c: `zerosim serve [SCENARIO]`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <signal.h>
#include <stdio.h>

#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/run/run.h"
#include "sim/web/serve.h"

#define DEFAULT_PORT     8642
#define DEFAULT_SCENARIO "scenarios/nvswitch.yaml"

int
zs_command_serve (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autofree char *path
      = arguments[0] != NULL ? g_strdup (arguments[0])
                             : g_build_filename (zs_catalogue_datadir (catalogue), DEFAULT_SCENARIO, NULL);
  g_autoptr (GError) error = NULL;
  int64_t port = DEFAULT_PORT;
  sigset_t signals;
  int signal;

  if (options->port != NULL && (!zs_count_parse (options->port, &port, NULL) || port < 0 || port > 65535)) {
    fprintf (stderr, "zerosim: --port must be 0 (any that is free) to 65535, not '%s'\n", options->port);
    return ZS_EXIT_USAGE;
  }
  g_autoptr (ZsScenario) scenario = zs_load_scenario (path, options, catalogue);

  if (scenario == NULL)
    return ZS_EXIT_INPUT;
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsServeOptions serve = { .path = path, .flags = &flags, .sets = (const char *const *) sets,
                           .catalogue = catalogue, .port = (int) port };

  /* before there are threads, so that none of them takes them */
  sigemptyset (&signals);
  sigaddset (&signals, SIGINT);
  sigaddset (&signals, SIGTERM);
  pthread_sigmask (SIG_BLOCK, &signals, NULL);
  zs_run_keep_memory ();
  g_autoptr (ZsServer) server = zs_server_new (&serve, scenario, &error);

  if (server == NULL)
    return zs_command_fail (error);
  printf ("zerosim: http://127.0.0.1:%d/ (Ctrl-C ends)\n", zs_server_port (server));
  fflush (stdout);
  sigwait (&signals, &signal);
  return ZS_EXIT_DONE;
}
