/* options.c: the options of all commands.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/options.h"

#include <string.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/base/words.h"

typedef struct {
  const char  *name;
  const char  *argument;    /* NULL: a flag */
  unsigned int groups;
  GOptionArg   type;
  size_t       offset;
  const char  *help;
} Option;

#define FIELD(member) offsetof (ZsOptions, member)
#define SCENARIO ZS_OPTIONS_SCENARIO
#define MACHINE  ZS_OPTIONS_MACHINE
#define STRING   G_OPTION_ARG_STRING

static const Option OPTIONS[] = {
  { "model", "NAME|FILE", SCENARIO, STRING, FIELD (model),
    "a name of `zerosim list models`, or a Hugging Face config.json" },
  { "gpus", "NxNAME", SCENARIO | MACHINE, STRING, FIELD (gpus), "GPUs of one node, such as 2xA100-40G, or a machine such as p4d.24xlarge" },
  { "nodes", "N", SCENARIO | MACHINE, STRING, FIELD (nodes), "nodes of equal kind" },
  { "fabric", "NAME|FILE", SCENARIO | MACHINE, STRING, FIELD (fabric),
    "links between the GPUs of a node: pcie, nvlink, nvswitch, ideal, a name, `nvidia-smi topo -m` text or NCCL XML" },
  { "network", "NAME", SCENARIO | MACHINE, STRING, FIELD (network), "network between nodes" },
  { "micro-batch", "N", SCENARIO, STRING, FIELD (micro_batch), "sequences per GPU and micro-step" },
  { "seq", "N", SCENARIO, STRING, FIELD (sequence), "tokens of a sequence" },
  { "accumulation", "N", SCENARIO, STRING, FIELD (accumulation), "micro-steps per step" },
  { "checkpointing", "none|full|K", SCENARIO, STRING, FIELD (checkpointing),
    "activation checkpointing; K: every K-th layer" },
  { "attention", "NAME", SCENARIO, STRING, FIELD (attention), "eager, sdpa or flash" },
  { "lora", "RANK[:TARGETS]", SCENARIO, STRING, FIELD (lora),
    "LoRA adapters, such as 16:q_proj,v_proj" },
  { "host-memory", "SIZE", SCENARIO, STRING, FIELD (host_memory), "memory of one node" },
  { "deepspeed-version", "V", SCENARIO | ZS_OPTIONS_CHECK, STRING, FIELD (deepspeed_version),
    "such as 0.14.4" },
  { "torch-version", "V", SCENARIO, STRING, FIELD (torch_version), "such as 2.8" },
  { "transformers-version", "V", SCENARIO, STRING, FIELD (transformers_version), "such as 4.45" },
  { "memory-limit", "SIZE", SCENARIO, STRING, FIELD (memory_limit),
    "torch may reserve so much of each GPU" },
  { "steps", "N", SCENARIO, STRING, FIELD (steps), "steps to simulate" },
  { "accelerate", "FILE", SCENARIO, STRING, FIELD (accelerate), "an accelerate YAML" },
  { "training-args", "FILE", SCENARIO, STRING, FIELD (training_args),
    "Hugging Face TrainingArguments as JSON or YAML, with the keys of TRL and LLaMA-Factory" },
  { "set", "PATH=VALUE", SCENARIO | MACHINE, G_OPTION_ARG_STRING_ARRAY, FIELD (sets),
    "change one setting of the scenario; may be repeated" },
  { "json", NULL, ZS_OPTIONS_OUTPUT, G_OPTION_ARG_NONE, FIELD (json), "print JSON" },
  { "color", "WHEN", ZS_OPTIONS_OUTPUT, STRING, FIELD (color), "auto, always or never" },
  { "no-advice", NULL, ZS_OPTIONS_RECORD | ZS_OPTIONS_EXPLAIN, G_OPTION_ARG_NONE, FIELD (no_advice),
    "do not try changes" },
  { "trace", "FILE", ZS_OPTIONS_RECORD, STRING, FIELD (trace),
    "write Chrome trace events; opens in Perfetto" },
  { "memory-snapshot", "FILE", ZS_OPTIONS_RECORD, STRING, FIELD (memory_snapshot),
    "write the allocator's history for PyTorch's memory viewer" },
  { "rank", "N", ZS_OPTIONS_RECORD, G_OPTION_ARG_INT64, FIELD (rank),
    "report this rank instead of the worst" },
  { "jobs", "N", ZS_OPTIONS_JOBS, G_OPTION_ARG_INT, FIELD (jobs),
    "simulations at once; all cores by default" },
  { "quiet", NULL, ZS_OPTIONS_JOBS | ZS_OPTIONS_RECORD, G_OPTION_ARG_NONE, FIELD (quiet),
    "no progress bar" },
  { "output", "FILE", ZS_OPTIONS_WRITE | ZS_OPTIONS_SWEEP | ZS_OPTIONS_PLOT, STRING, FIELD (output),
    "where to write" },
  { "csv", "FILE", ZS_OPTIONS_SWEEP, STRING, FIELD (csv), "write the results as CSV" },
  { "shard", "K/N", ZS_OPTIONS_SWEEP, STRING, FIELD (shard), "only the K-th of N parts (from 1)" },
  { "vary", "PATH=VALUES", ZS_OPTIONS_VARY | ZS_OPTIONS_SWEEP, G_OPTION_ARG_STRING_ARRAY, FIELD (vary),
    "an axis: a,b,c or from:to:step or from:to:logN; may be repeated" },
  { "objective", "NAME", ZS_OPTIONS_ADVISE, STRING, FIELD (objective),
    "tokens_per_second, memory or cost" },
  { "limit", "NAME=VALUE", ZS_OPTIONS_ADVISE, G_OPTION_ARG_STRING_ARRAY, FIELD (limits),
    "such as host_memory=128GiB; may be repeated" },
  { "hf", NULL, ZS_OPTIONS_CHECK, G_OPTION_ARG_NONE, FIELD (hf), "the file is used with Hugging Face" },
  { "no-hf", NULL, ZS_OPTIONS_CHECK, G_OPTION_ARG_NONE, FIELD (no_hf), "it is not" },
  { "world", "N", ZS_OPTIONS_CHECK, G_OPTION_ARG_INT64, FIELD (world), "ranks of the job" },
  { "fix", NULL, ZS_OPTIONS_CHECK, G_OPTION_ARG_NONE, FIELD (fix), "write a corrected file beside it" },
  { "sarif", NULL, ZS_OPTIONS_CHECK, G_OPTION_ARG_NONE, FIELD (sarif), "print SARIF" },
  { "cluster", "FILE", MACHINE, STRING, FIELD (cluster),
    "a YAML file with the cluster: block of a scenario" },
  { "sizes", "LIST", ZS_OPTIONS_COLLECTIVE, STRING, FIELD (sizes),
    "8:8G:2 (from:to:factor) or 1M,16M,256M" },
  { "against", "LOG", ZS_OPTIONS_COLLECTIVE, STRING, FIELD (against),
    "an nccl-tests output to compare with" },
  { "alloc-conf", "TEXT", ZS_OPTIONS_REPLAY, STRING, FIELD (alloc_conf), "PYTORCH_CUDA_ALLOC_CONF" },
  { "limit", "SIZE", ZS_OPTIONS_REPLAY, STRING, FIELD (limit), "what torch may reserve" },
  { "list", NULL, ZS_OPTIONS_PLOT, G_OPTION_ARG_NONE, FIELD (list), "list the figures" },
  { "level", "WHO", ZS_OPTIONS_EXPLAIN, STRING, FIELD (level), "beginner or expert" },
  { "lang", "CODE", ZS_OPTIONS_EXPLAIN, STRING, FIELD (language), "en or zh" },
  { "port", "N", ZS_OPTIONS_SERVE, STRING, FIELD (port), "port of 127.0.0.1; 0: any that is free" },
  { "plot", "FILE", ZS_OPTIONS_TOPOLOGY, STRING, FIELD (plot), "draw it as SVG" },
};

/* The one option that is short too. */
static char
letter_of (const Option *option)
{
  return strcmp (option->name, "output") == 0 ? 'o' : 0;
}

void
zs_options_clear (ZsOptions *options)
{
  for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++) {
    void *slot = (char *) options + OPTIONS[i].offset;

    if (OPTIONS[i].type == G_OPTION_ARG_STRING)
      g_clear_pointer ((char **) slot, g_free);
    else if (OPTIONS[i].type == G_OPTION_ARG_STRING_ARRAY)
      g_clear_pointer ((char ***) slot, g_strfreev);
  }
}

/* The nearest option to an unknown one, which GLib names last: "Unknown option --microbatch". */
static char *
hint_for (const GError *problem, const GOptionEntry *entries)
{
  const char *dashes = strstr (problem->message, "--");
  g_autoptr (GPtrArray) words = g_ptr_array_new_with_free_func (g_free);

  if (!g_error_matches (problem, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) || dashes == NULL)
    return g_strdup ("");
  for (; entries->long_name != NULL; entries++)
    g_ptr_array_add (words, g_strconcat ("--", entries->long_name, NULL));
  g_ptr_array_add (words, NULL);
  return zs_nearest_hint (dashes, (const char *const *) words->pdata);
}

/* what a number is until it is given */
#define UNSET G_MININT

/* The numbers that were given; those that were not become what they are left out. */
static bool
take_numbers (ZsOptions *options, GError **error)
{
  gint64 jobs = options->jobs;
  const struct {
    const char *name;
    gint64     *value;
    int         least, missing;
  } rows[] = {
    { "rank", &options->rank, 0, -1 },
    { "jobs", &jobs, 1, 0 },
    { "world", &options->world, 1, 0 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (*rows[i].value == UNSET) {
      *rows[i].value = rows[i].missing;
    } else if (*rows[i].value < rows[i].least) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--%s must be at least %d, not %" G_GINT64_FORMAT, rows[i].name,
                   rows[i].least, *rows[i].value);
      return false;
    }
  options->jobs = (int) jobs;
  return true;
}

/* Two texts in one stream would be neither. */
static bool
check_standard_output (const ZsOptions *options, GError **error)
{
  const struct {
    const char *name;
    bool        there;
  } texts[] = {
    { "--json", options->json },
    { "--sarif", options->sarif },
    { "--output -", g_strcmp0 (options->output, "-") == 0 },
    { "--csv -", g_strcmp0 (options->csv, "-") == 0 },
    { "--trace -", g_strcmp0 (options->trace, "-") == 0 },
    { "--memory-snapshot -", g_strcmp0 (options->memory_snapshot, "-") == 0 },
    { "--plot -", g_strcmp0 (options->plot, "-") == 0 },
  };
  const char *first = NULL;

  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++) {
    if (texts[i].there && first != NULL) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "%s and %s would both write to standard output", first,
                   texts[i].name);
      return false;
    }
    if (texts[i].there)
      first = texts[i].name;
  }
  return true;
}

static const char *const COLORS[] = { "auto", "always", "never", NULL };

bool
zs_options_parse (ZsOptions *options, unsigned int groups, const char *arguments,
                  const char *summary, int *argc, char ***argv, GError **error)
{
  g_autofree GOptionEntry *entries = g_new0 (GOptionEntry, G_N_ELEMENTS (OPTIONS) + 1);
  g_autoptr (GOptionContext) context = g_option_context_new (arguments);
  g_autoptr (GError) problem = NULL;
  int n_entries = 0;

  *options = (ZsOptions) { .rank = UNSET, .jobs = UNSET, .world = UNSET };
  for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++)
    if ((OPTIONS[i].groups & groups) != 0)
      entries[n_entries++] = (GOptionEntry) {
        .long_name = OPTIONS[i].name,
        .short_name = letter_of (&OPTIONS[i]),
        .arg = OPTIONS[i].type,
        .arg_data = (char *) options + OPTIONS[i].offset,
        .description = OPTIONS[i].help,
        .arg_description = OPTIONS[i].argument,
      };
  g_option_context_set_summary (context, summary);
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, &problem)) {
    g_autofree char *hint = hint_for (problem, entries);

    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "%s%s", problem->message, hint);
    return false;
  }
  if (!take_numbers (options, error) || !check_standard_output (options, error))
    return false;
  if (options->color != NULL && !g_strv_contains (COLORS, options->color)) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--color must be auto, always or never, not '%s'",
                 options->color);
    return false;
  }
  return true;
}

static int
compare_options (const void *a, const void *b)
{
  const Option *x = *(const Option *const *) a, *y = *(const Option *const *) b;
  int order = strcmp (x->name, y->name);

  return order != 0 ? order : (x > y) - (x < y);
}

char *
zs_options_manual (void)
{
  const Option *sorted[G_N_ELEMENTS (OPTIONS)];
  GString *text = g_string_new (NULL);

  for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++)
    sorted[i] = &OPTIONS[i];
  qsort (sorted, G_N_ELEMENTS (sorted), sizeof sorted[0], compare_options);
  for (size_t i = 0; i < G_N_ELEMENTS (sorted); i++) {
    if (letter_of (sorted[i]) != 0)
      g_string_append_printf (text, "*-%c*, ", letter_of (sorted[i]));
    g_string_append_printf (text, "*--%s*", sorted[i]->name);
    if (sorted[i]->argument != NULL) {
      g_string_append (text, " ");
      for (const char *at = sorted[i]->argument; *at != '\0'; at++) {
        if (*at == '_' || *at == '*')
          g_string_append_c (text, '\\');
        g_string_append_c (text, *at);
      }
    }
    g_string_append (text, "\n\t");
    for (const char *at = sorted[i]->help; *at != '\0'; at++) {
      if (strchr ("_*`\\", *at) != NULL)
        g_string_append_c (text, '\\');
      g_string_append_c (text, *at);
    }
    g_string_append (text, ".\n\n");
  }
  return g_string_free (text, FALSE);
}

bool
zs_options_color (const ZsOptions *options, int fd)
{
  if (options->color != NULL && g_str_equal (options->color, "always"))
    return true;
  if (options->color != NULL && g_str_equal (options->color, "never"))
    return false;
  return isatty (fd) && g_getenv ("NO_COLOR") == NULL
         && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0;
}
