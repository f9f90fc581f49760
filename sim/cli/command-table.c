/* command-table.c: the list of commands.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/command-list.h"

const ZsCommand ZS_COMMANDS[] = {
  { "replay", "TRACE", "hold an allocator's recorded history against ours",
    ZS_OPTIONS_REPLAY | ZS_OPTIONS_OUTPUT, 1, 1, zs_command_replay },
};

const int ZS_N_COMMANDS = G_N_ELEMENTS (ZS_COMMANDS);
