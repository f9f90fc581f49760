/* command-list.h: the functions behind command-table.c; each is in command-NAME.c.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/cli/command.h"

int zs_command_explain (const ZsOptions *options, char **arguments);
int zs_command_report (const ZsOptions *options, char **arguments);
int zs_command_serve (const ZsOptions *options, char **arguments);
int zs_command_run (const ZsOptions *options, char **arguments);
int zs_command_list (const ZsOptions *options, char **arguments);
int zs_command_show (const ZsOptions *options, char **arguments);
int zs_command_topology (const ZsOptions *options, char **arguments);
int zs_command_calibrate (const ZsOptions *options, char **arguments);
int zs_command_collective (const ZsOptions *options, char **arguments);
int zs_command_validate (const ZsOptions *options, char **arguments);
int zs_command_check (const ZsOptions *options, char **arguments);
int zs_command_replay (const ZsOptions *options, char **arguments);
int zs_command_sweep (const ZsOptions *options, char **arguments);
int zs_command_compare (const ZsOptions *options, char **arguments);
int zs_command_advise (const ZsOptions *options, char **arguments);
int zs_command_plot (const ZsOptions *options, char **arguments);
