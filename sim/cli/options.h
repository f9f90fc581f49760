/* options.h: the options of all commands: one row each.
 * SPDX-License-Identifier: MIT
 *
 * The same rows make the parser, --help, and the OPTIONS of the manual page. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Groups of options; a command takes some. */
enum {
  ZS_OPTIONS_SCENARIO = 1 << 0,   /* what a scenario may leave open: --model, --gpus, --set ... */
  ZS_OPTIONS_OUTPUT   = 1 << 1,   /* --json, --color */
  ZS_OPTIONS_RECORD   = 1 << 2,   /* --trace, --memory-snapshot, --rank */
  ZS_OPTIONS_JOBS     = 1 << 3,   /* --jobs, --quiet */
  ZS_OPTIONS_SWEEP    = 1 << 4,
  ZS_OPTIONS_VARY     = 1 << 5,
  ZS_OPTIONS_ADVISE   = 1 << 6,
  ZS_OPTIONS_CHECK    = 1 << 7,
  ZS_OPTIONS_COLLECTIVE = 1 << 8,
  ZS_OPTIONS_REPLAY   = 1 << 9,
  ZS_OPTIONS_PLOT     = 1 << 10,
  ZS_OPTIONS_WRITE    = 1 << 11,  /* --output */
  ZS_OPTIONS_EXPLAIN  = 1 << 12,
  ZS_OPTIONS_SERVE    = 1 << 13,
  ZS_OPTIONS_TOPOLOGY = 1 << 14,  /* --plot */
  ZS_OPTIONS_MACHINE  = 1 << 15,  /* --cluster, --gpus, --fabric ... */
};

typedef struct {
  /* scenario */
  char  *model, *gpus, *nodes, *fabric, *network, *micro_batch, *sequence, *accumulation;
  char  *checkpointing, *attention, *lora, *host_memory, *deepspeed_version, *torch_version;
  char  *transformers_version, *accelerate, *training_args, *steps, *memory_limit;
  char **sets;
  /* output */
  gboolean json;
  char  *color;            /* auto, always, never */
  gboolean no_advice;
  /* record */
  char  *trace, *memory_snapshot;
  gint64 rank;             /* -1: the worst */
  /* jobs */
  gint   jobs;             /* 0: all cores */
  gboolean quiet;
  /* others */
  char  *output, *csv, *shard, *objective, *sizes, *cluster, *against, *alloc_conf, *limit;
  char **vary, **limits;
  char  *level, *language, *port, *plot;
  gboolean hf, no_hf, fix, sarif, list;
  gint64 world;
} ZsOptions;

void zs_options_clear (ZsOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ZsOptions, zs_options_clear)

/* Take the options of GROUPS out of ARGV; what is left are arguments (*ARGC counts them, ARGV[0] the
 * command).  Fails with ZS_ERROR_USAGE. --help is printed and ends the process with status 0. */
bool zs_options_parse (ZsOptions *options, unsigned int groups, const char *arguments,
                       const char *summary, int *argc, char ***argv, GError **error);

/* The rows as the manual page's OPTIONS (scdoc), for a test that holds the page against them. */
char *zs_options_manual (void);

/* May the output be coloured: --color, else a terminal without NO_COLOR. */
bool zs_options_color (const ZsOptions *options, int fd);
