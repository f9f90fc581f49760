/* command-table.c: the list of commands.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/command-list.h"

const ZsCommand ZS_COMMANDS[] = {
  { "run", "SCENARIO", "one scenario: does it fit, who holds the peak, what it waits for",
    ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT | ZS_OPTIONS_RECORD, 1, 1, zs_command_run },
  { "list", "[KIND]", "what comes with zerosim: GPUs, models, machines, fabrics, scenarios",
    ZS_OPTIONS_OUTPUT, 0, 1, zs_command_list },
  { "show", "NAME", "one of them, with its numbers and their sources", 0, 1, 1, zs_command_show },
  { "topology", "FILE", "what was understood of a machine",
    ZS_OPTIONS_TOPOLOGY | ZS_OPTIONS_OUTPUT, 1, 1, zs_command_topology },
  { "collective", "OP", "times of a collective, in the columns of nccl-tests",
    ZS_OPTIONS_COLLECTIVE | ZS_OPTIONS_MACHINE | ZS_OPTIONS_OUTPUT, 1, 1, zs_command_collective },
  { "explain", "SCENARIO", "the story of one step, for a reader who is learning",
    ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT | ZS_OPTIONS_EXPLAIN, 1, 1, zs_command_explain },
  { "report", "SCENARIO...", "one self-contained HTML page; several scenarios on one time axis",
    ZS_OPTIONS_SCENARIO | ZS_OPTIONS_WRITE | ZS_OPTIONS_EXPLAIN, 1, 8, zs_command_report },
  { "serve", "[SCENARIO]", "the page live on 127.0.0.1: move a setting, see the step change",
    ZS_OPTIONS_SCENARIO | ZS_OPTIONS_SERVE, 0, 1, zs_command_serve },
  { "calibrate", "FILE...", "fit a machine to logs of nccl-tests, of copies and of steps",
    ZS_OPTIONS_MACHINE | ZS_OPTIONS_WRITE | ZS_OPTIONS_OUTPUT, 1, -1, zs_command_calibrate },
  { "validate", "CASE...", "scenarios with measured numbers: error per case and in summary",
    ZS_OPTIONS_JOBS | ZS_OPTIONS_OUTPUT, 1, -1, zs_command_validate },
  { "check", "FILE...", "what is wrong, ignored, dead or risky in a ds_config.json or scenario",
    ZS_OPTIONS_CHECK | ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT, 1, -1, zs_command_check },
  { "replay", "TRACE", "hold an allocator's recorded history against ours",
    ZS_OPTIONS_REPLAY | ZS_OPTIONS_OUTPUT, 1, 1, zs_command_replay },
  { "compare", "SCENARIO...", "side by side, and which to choose: scenarios, or one with --vary",
    ZS_OPTIONS_VARY | ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT | ZS_OPTIONS_JOBS, 1, -1, zs_command_compare },
  { "advise", "SCENARIO", "the fastest settings that fit, and the smallest change that does",
    ZS_OPTIONS_ADVISE | ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT | ZS_OPTIONS_JOBS, 1, 1, zs_command_advise },
  { "plot", "FIGURE ARGUMENT...", "figures of a scenario, a sweep or collectives, with gnuplot",
    ZS_OPTIONS_PLOT | ZS_OPTIONS_SCENARIO | ZS_OPTIONS_COLLECTIVE, 0, -1, zs_command_plot },
  { "sweep", "SWEEP|SCENARIO | merge OUT.db PART.db...", "every combination of settings, on all cores; resumes",
    ZS_OPTIONS_SWEEP | ZS_OPTIONS_SCENARIO | ZS_OPTIONS_OUTPUT | ZS_OPTIONS_JOBS, 1, -1, zs_command_sweep },
};

const int ZS_N_COMMANDS = G_N_ELEMENTS (ZS_COMMANDS);
