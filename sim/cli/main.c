/* main.c: finds the command and hands it its options.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/words.h"
#include "sim/cli/command.h"
#include "sim/run/run.h"

static void
print_help (FILE *file)
{
  fputs ("Usage: zerosim COMMAND [OPTION...] [ARGUMENT...]\n\n"
         "Simulates multi-GPU fine-tuning of LLaMA-like models: does it fit, who holds the bytes,\n"
         "what the step waits for, what to change.\n\nCommands:\n",
         file);
  for (int i = 0; i < ZS_N_COMMANDS; i++)
    fprintf (file, "  %-11s %-16s %s\n", ZS_COMMANDS[i].name, ZS_COMMANDS[i].arguments,
             ZS_COMMANDS[i].summary);
  fputs ("\n`zerosim COMMAND --help` lists its options.  A first run:\n"
         "  zerosim run ds_config.json --model llama-7b --gpus 2xA100-40G --fabric pcie \\\n"
         "    --micro-batch 1 --seq 2048 --checkpointing full\n",
         file);
}

/* A file of Hugging Face's is a scenario too where no other is named. */
static void
take_scenario (const ZsCommand *command, ZsOptions *options, char **arguments, int *n_arguments)
{
  char **file = options->training_args != NULL ? &options->training_args : &options->accelerate;

  if (*n_arguments > 1 || *file == NULL || !g_str_has_prefix (command->arguments, "SCENARIO"))
    return;
  arguments[1] = *file;
  arguments[2] = NULL;
  *n_arguments = 2;
}

/* Does MESSAGE start "file:line:"? */
static bool
has_place (const char *message)
{
  const char *colon = strchr (message, ':');

  return colon != NULL && colon > message && g_ascii_isdigit (colon[1]);
}

int
zs_command_fail (const GError *error)
{
  fprintf (stderr, "%s%s\n", has_place (error->message) ? "" : "zerosim: ", error->message);
  if (error->domain == ZS_ERROR && error->code == ZS_ERROR_USAGE)
    return ZS_EXIT_USAGE;
  if ((error->domain == ZS_ERROR && error->code == ZS_ERROR_LIMIT)
      || (error->domain == ZS_RUN_ERROR && error->code == ZS_RUN_ERROR_LIMIT))
    return ZS_EXIT_LIMIT;
  return ZS_EXIT_INPUT;
}

static const ZsCommand *
find_command (const char *name)
{
  for (int i = 0; i < ZS_N_COMMANDS; i++)
    if (g_str_equal (ZS_COMMANDS[i].name, name))
      return &ZS_COMMANDS[i];
  return NULL;
}

static int
unknown_command (const char *name)
{
  g_autofree const char **names = g_new0 (const char *, ZS_N_COMMANDS + 1);

  for (int i = 0; i < ZS_N_COMMANDS; i++)
    names[i] = ZS_COMMANDS[i].name;
  g_autofree char *hint = g_file_test (name, G_FILE_TEST_IS_REGULAR)
                              ? g_strdup_printf ("; it is a file: `zerosim run %s`?", name)
                              : zs_nearest_hint (name, names);

  fprintf (stderr, "zerosim: unknown command '%s'%s\n", name, hint);
  return ZS_EXIT_USAGE;
}

int
main (int argc, char **argv)
{
  setlocale (LC_ALL, "C.UTF-8");
  if (argc < 2 || g_str_equal (argv[1], "help")) {
    print_help (argc < 2 ? stderr : stdout);
    return argc < 2 ? ZS_EXIT_USAGE : ZS_EXIT_DONE;
  }
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h")) {
    print_help (stdout);
    return ZS_EXIT_DONE;
  }
  if (g_str_equal (argv[1], "--version") || g_str_equal (argv[1], "version")) {
    puts ("zerosim " PACKAGE_VERSION);
    return ZS_EXIT_DONE;
  }

  if (g_str_equal (argv[1], "--print-options-manual")) {
    g_autofree char *text = zs_options_manual ();

    fputs (text, stdout);
    return ZS_EXIT_DONE;
  }

  const ZsCommand *command = find_command (argv[1]);

  if (command == NULL)
    return unknown_command (argv[1]);

  g_auto (ZsOptions) options = { .rank = -1 };
  g_autoptr (GError) error = NULL;
  g_autofree char *program = g_strdup_printf ("zerosim %s", command->name);
  int n_arguments = argc - 1;
  g_autofree char **arguments = g_new0 (char *, argc + 1);

  memcpy (arguments, argv + 1, (argc - 1) * sizeof *arguments);
  arguments[0] = program;
  g_set_prgname (program);
  if (!zs_options_parse (&options, command->options, command->arguments, command->summary,
                         &n_arguments, &arguments, &error))
    return zs_command_fail (error);
  arguments[n_arguments] = NULL;
  take_scenario (command, &options, arguments, &n_arguments);
  if (n_arguments - 1 < command->min_arguments
      || (command->max_arguments >= 0 && n_arguments - 1 > command->max_arguments)) {
    if (n_arguments - 1 < command->min_arguments)
      fprintf (stderr, "zerosim: %s is missing\n", command->arguments);
    else
      fprintf (stderr, "zerosim: '%s' is one argument too many\n",
               arguments[command->max_arguments + 1]);
    fprintf (stderr, "Usage: zerosim %s [OPTION...] %s\n", command->name, command->arguments);
    if (g_str_has_prefix (command->arguments, "SCENARIO"))
      fputs ("A SCENARIO is a ds_config.json, a scenario in YAML, an accelerate YAML, TrainingArguments,\n"
             "or a name of `zerosim list scenarios`.\n", stderr);
    return ZS_EXIT_USAGE;
  }

  for (int i = 1; i < n_arguments; i++)
    if (*arguments[i] == '\0') {
      fprintf (stderr, "zerosim: an argument is empty\n");
      return ZS_EXIT_USAGE;
    }

  int status = command->run (&options, arguments + 1);

  if (fflush (stdout) != 0 || ferror (stdout)) {
    fprintf (stderr, "zerosim: standard output: %s\n", g_strerror (errno != 0 ? errno : EIO));
    return status == ZS_EXIT_DONE ? ZS_EXIT_INPUT : status;
  }
  return status;
}
