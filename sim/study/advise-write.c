/* advise-write.c: advice for a terminal and as JSON.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/report/result-json.h"
#include "sim/study/advise-internal.h"

#define MAX_FRONT_LINES 8

/* ---- JSON ---- */

static void
write_set (const ZsAdvice *advice, const ZsTrial *trial, ZsJsonWriter *writer)
{
  g_auto (GStrv) sets = zs_space_sets (advice->space, trial->choice);

  zs_json_begin_object (writer, "set");
  for (int i = 0; sets[i] != NULL; i++) {
    char *equals = strchr (sets[i], '=');

    *equals = '\0';
    zs_json_string (writer, sets[i], equals + 1);
    *equals = '=';
  }
  zs_json_end_object (writer);
}

/* Run once more, now with the whole result. */
static ZsResult *
run_again (const ZsAdvice *advice, const ZsTrial *trial, ZsScenario **ret_scenario)
{
  g_auto (GStrv) sets = zs_space_sets (advice->space, trial->choice);

  return zs_base_run (advice->base, (const char *const *) sets, NULL, ret_scenario, NULL);
}

static void
write_environment (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  g_auto (GStrv) environment = zs_ready_environment (scenario);

  zs_json_begin_object (writer, "environment");
  for (int i = 0; environment[i] != NULL; i++) {
    char *equals = strchr (environment[i], '=');

    *equals = '\0';
    zs_json_string (writer, environment[i], equals + 1);
  }
  zs_json_end_object (writer);
}

static void
write_answer (const ZsAdvice *advice, const char *key, int place, ZsJsonWriter *writer)
{
  if (place < 0) {
    zs_json_null (writer, key);
    return;
  }
  const ZsTrial *trial = zs_advice_trial (advice, place);
  g_autoptr (ZsScenario) scenario = NULL;
  g_autoptr (ZsResult) result = run_again (advice, trial, &scenario);

  g_assert (result != NULL);
  zs_json_begin_object (writer, key);
  write_set (advice, trial, writer);
  zs_json_int (writer, "changes", trial->n_changes);
  zs_json_number (writer, "gpu_hours_per_billion_tokens", zs_trial_cost (trial));
  zs_json_bool (writer, "thin", trial->thin);
  zs_json_int (writer, "room_bytes", trial->room_bytes);
  zs_json_begin_object (writer, "ds_config");
  if (scenario->training.framework == ZS_FRAMEWORK_DEEPSPEED)
    zs_ready_ds_config (scenario, writer);
  zs_json_end_object (writer);
  zs_json_begin_object (writer, "training_arguments");
  zs_ready_training_arguments (scenario, writer);
  zs_json_end_object (writer);
  zs_json_begin_object (writer, "accelerate");
  zs_ready_accelerate (scenario, writer);
  zs_json_end_object (writer);
  write_environment (scenario, writer);
  zs_json_begin_object (writer, "result");
  zs_result_write_json (result, NULL, 0, writer);
  zs_json_end_object (writer);
  zs_json_end_object (writer);
}

static void
write_list (const ZsAdvice *advice, const char *key, const GArray *places, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, key);
  for (guint i = 0; i < places->len; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, g_array_index (places, int, i));

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    write_set (advice, trial, writer);
    zs_json_int (writer, "peak_device_bytes", trial->peak_device_bytes);
    zs_json_int (writer, "room_bytes", trial->room_bytes);
    zs_json_bool (writer, "thin", trial->thin);
    zs_json_int (writer, "host_bytes", trial->host_bytes);
    zs_json_int (writer, "step_time_ps", trial->step_time);
    zs_json_number (writer, "tokens_per_second_per_gpu", trial->tokens_per_second_per_gpu);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

static const char *
objective_name (ZsObjective objective)
{
  static const char *const NAMES[] = { "tokens_per_second", "memory", "cost" };

  return NAMES[objective];
}

void
zs_advice_write_json (const ZsAdvice *advice, ZsJsonWriter *writer)
{
  zs_json_string (writer, "objective", objective_name (advice->options.objective));
  zs_json_bool (writer, "fits_as_it_is", zs_advice_trial (advice, 0)->fits);
  zs_json_bool (writer, "thin_as_it_is", zs_advice_trial (advice, 0)->thin);
  zs_json_int (writer, "tried", advice->trials->len);
  write_answer (advice, "smallest_change", advice->smallest, writer);
  write_answer (advice, "fastest", advice->fastest, writer);
  write_answer (advice, "nearly_as_fast", advice->nearly, writer);
  if (advice->options.objective != ZS_OBJECTIVE_SPEED)
    write_answer (advice, "best", advice->best, writer);
  write_list (advice, "front", advice->front, writer);
  write_list (advice, "faster_but_thin", advice->thin, writer);
  zs_json_begin_array (writer, "hardware");
  for (guint i = 0; i < advice->hardware->len; i++) {
    const ZsHardwareAdvice *hardware = g_ptr_array_index (advice->hardware, i);

    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "machine", hardware->machine);
    zs_json_begin_array (writer, "set");
    for (int j = 0; hardware->sets[j] != NULL; j++)
      zs_json_string (writer, NULL, hardware->sets[j]);
    zs_json_end_array (writer);
    zs_json_int (writer, "peak_device_bytes", hardware->peak_device_bytes);
    zs_json_number (writer, "tokens_per_second_per_gpu", hardware->tokens_per_second_per_gpu);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

/* ---- text ---- */

/* "training.deepspeed.zero_optimization.stage=3" as "stage=3" */
static const char *
short_set (const char *set)
{
  static const char *const PREFIXES[] = { "training.deepspeed.zero_optimization.", "training.", "cluster." };

  for (size_t i = 0; i < G_N_ELEMENTS (PREFIXES); i++)
    if (g_str_has_prefix (set, PREFIXES[i]))
      return set + strlen (PREFIXES[i]);
  return set;
}

static char *
describe (const ZsAdvice *advice, const ZsTrial *trial)
{
  g_auto (GStrv) sets = zs_space_sets (advice->space, trial->choice);
  GString *text = g_string_new (NULL);

  for (int i = 0; sets[i] != NULL; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", short_set (sets[i]));
  if (text->len == 0)
    g_string_append (text, "as it is");
  return g_string_free (text, FALSE);
}

static void
write_numbers (const ZsTrial *trial, ZsText *text)
{
  g_autofree char *peak = zs_bytes_format (trial->peak_device_bytes);
  g_autofree char *host = zs_bytes_format (trial->host_bytes);
  g_autofree char *time = zs_time_format (trial->step_time);

  zs_text_append (text, "  %s per GPU, %s of host memory per node\n", peak, host);
  zs_text_append (text, "  %s a step, %.0f tokens/s per GPU, %.3g GPU hours per 10^9 tokens\n", time,
                  trial->tokens_per_second_per_gpu, zs_trial_cost (trial));
  if (trial->thin) {
    g_autofree char *size = zs_bytes_format (trial->room_bytes);

    zs_text_append (text, "  only %s are left, by which the model may be wrong: it may run out of memory\n",
                    size);
  }
}

static void
write_changes (const ZsAdvice *advice, const ZsTrial *trial, ZsText *text)
{
  for (int i = 0; i < advice->space->n; i++) {
    const ZsDimension *dimension = &advice->space->dimensions[i];

    if (trial->choice[i] == 0)
      continue;
    g_auto (GStrv) sets = g_strdupv (dimension->values[trial->choice[i]].sets);
    GString *line = g_string_new (NULL);

    for (int j = 0; sets[j] != NULL; j++)
      g_string_append_printf (line, "%s%s", j > 0 ? ", " : "", short_set (sets[j]));
    g_string_append_printf (line, ": %s", dimension->trade);
    zs_text_wrap (text, "  * ", 4, line->str);
    g_string_free (line, TRUE);
  }
}

/* What was not taken for its lack of room. */
static void
write_thin (const ZsAdvice *advice, ZsText *text)
{
  if (advice->thin->len == 0)
    return;
  zs_text_append (text, "\nFaster, but with less room than the model may be wrong by (4 %% of a GPU)\n");
  for (guint i = 0; i < advice->thin->len; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, g_array_index (advice->thin, int, i));
    g_autofree char *room = zs_bytes_format (trial->room_bytes);
    g_autofree char *what = describe (advice, trial);
    g_autofree char *first = g_strdup_printf ("  %10s left %10.0f tokens/s  ", room,
                                              trial->tokens_per_second_per_gpu);

    zs_text_wrap (text, first, 38, what);
  }
}

static void
write_ready (const ZsAdvice *advice, const ZsTrial *trial, ZsText *text)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_space_sets (advice->space, trial->choice);
  g_autoptr (ZsScenario) scenario
      = zs_base_scenario (advice->base, (const char *const *) sets, errors);

  if (scenario == NULL)
    return;
  if (scenario->training.framework == ZS_FRAMEWORK_DEEPSPEED) {
    g_autoptr (ZsJsonWriter) writer = NULL;

    zs_text_append (text, "\nds_config.json\n");
    writer = zs_json_writer_new (text->string, 2);
    zs_json_begin_object (writer, NULL);
    zs_ready_ds_config (scenario, writer);
    zs_json_end_object (writer);
  }
  if (scenario->training.framework == ZS_FRAMEWORK_FSDP1
      || scenario->training.framework == ZS_FRAMEWORK_FSDP2) {
    g_autoptr (ZsJsonWriter) writer = NULL;

    zs_text_append (text, "\naccelerate's configuration (JSON is YAML too)\n");
    writer = zs_json_writer_new (text->string, 2);
    zs_json_begin_object (writer, NULL);
    zs_ready_accelerate (scenario, writer);
    zs_json_end_object (writer);
  }
  g_autoptr (ZsJsonWriter) arguments = NULL;
  g_auto (GStrv) environment = zs_ready_environment (scenario);

  zs_text_append (text, "\nTrainingArguments\n");
  arguments = zs_json_writer_new (text->string, 2);
  zs_json_begin_object (arguments, NULL);
  zs_ready_training_arguments (scenario, arguments);
  zs_json_end_object (arguments);
  g_clear_pointer (&arguments, zs_json_writer_free);
  if (environment[0] != NULL)
    zs_text_append (text, "\nEnvironment\n");
  for (int i = 0; environment[i] != NULL; i++)
    zs_text_append (text, "export %s\n", environment[i]);
}

static void
write_front (const ZsAdvice *advice, ZsText *text)
{
  int n = (int) advice->front->len, shown = MIN (n, MAX_FRONT_LINES);

  if (n < 2)
    return;
  zs_text_append (text, "\nMemory against speed (no other is better in both)\n");
  zs_text_append (text, "  %10s %10s %10s  %s\n", "per GPU", "host", "tokens/s", "settings");
  for (int i = 0; i < shown; i++) {
    /* spread over the front, its ends included */
    int place = shown > 1 ? (int) ((int64_t) i * (n - 1) / (shown - 1)) : 0;
    const ZsTrial *trial = zs_advice_trial (advice, g_array_index (advice->front, int, place));
    g_autofree char *peak = zs_bytes_format (trial->peak_device_bytes);
    g_autofree char *host = zs_bytes_format (trial->host_bytes);
    g_autofree char *what = describe (advice, trial);
    g_autofree char *first = g_strdup_printf ("  %10s %10s %10.0f  ", peak, host,
                                              trial->tokens_per_second_per_gpu);

    zs_text_wrap (text, first, 36, what);
  }
}

static void
write_nothing_fits (const ZsAdvice *advice, ZsText *text)
{
  zs_text_styled (text, ZS_STYLE_BAD, "NOTHING FITS");
  zs_text_append (text, ": none of %u combinations of settings runs on this machine%s.\n",
                  advice->trials->len,
                  advice->options.host_memory_limit != 0 || advice->options.gpu_memory_limit != 0
                      || advice->options.step_time_limit != 0 ? " within the limits" : "");
  if (advice->hardware->len == 0)
    zs_text_wrap (text, "", 0, "Neither does it on up to 64 of these GPUs, nor on larger ones: it takes a "
                               "smaller model, a shorter sequence or adapters (--lora).");
  for (guint i = 0; i < advice->hardware->len; i++) {
    const ZsHardwareAdvice *hardware = g_ptr_array_index (advice->hardware, i);
    g_autofree char *peak = zs_bytes_format (hardware->peak_device_bytes);
    g_autoptr (GString) line = g_string_new (NULL);

    g_string_append_printf (line, "It would fit on %s (%s per GPU, %.0f tokens/s per GPU) with ",
                            hardware->machine, peak, hardware->tokens_per_second_per_gpu);
    for (int j = 0; hardware->sets[j] != NULL; j++)
      g_string_append_printf (line, "%s%s", j > 0 ? ", " : "", short_set (hardware->sets[j]));
    zs_text_wrap (text, "", 2, line->str);
  }
}

void
zs_advice_write (const ZsAdvice *advice, ZsText *text)
{
  if (advice->smallest < 0) {
    write_nothing_fits (advice, text);
    return;
  }
  const ZsTrial *smallest = zs_advice_trial (advice, advice->smallest);
  const ZsTrial *best = zs_advice_trial (advice, advice->best);

  zs_text_styled (text, ZS_STYLE_BOLD, "The smallest change that fits\n");
  if (zs_advice_trial (advice, 0)->fits && smallest->n_changes > 0) {
    g_autofree char *size = zs_bytes_format (zs_advice_trial (advice, 0)->room_bytes);

    zs_text_append (text, "  as it is, it fits with only %s left, by which the model may be wrong\n", size);
  }
  if (smallest->n_changes == 0)
    zs_text_append (text, "  none: it fits as it is\n");
  write_changes (advice, smallest, text);
  write_numbers (smallest, text);
  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "%s",
                  advice->options.objective == ZS_OBJECTIVE_MEMORY ? "The least GPU memory\n"
                  : advice->options.objective == ZS_OBJECTIVE_COST ? "The cheapest that fits\n"
                                                                   : "The fastest that fits\n");
  if (best->n_changes == 0)
    zs_text_append (text, "  as it is: no change that was tried is better\n");
  write_changes (advice, best, text);
  write_numbers (best, text);
  if (smallest->tokens_per_second_per_gpu > 0 && advice->smallest != advice->best
      && best->n_ranks == smallest->n_ranks)
    zs_text_append (text, "  %.3g times as fast as the smallest change\n",
                    best->tokens_per_second_per_gpu / smallest->tokens_per_second_per_gpu);
  if (advice->nearly != advice->best && advice->options.objective == ZS_OBJECTIVE_SPEED) {
    const ZsTrial *nearly = zs_advice_trial (advice, advice->nearly);

    zs_text_append (text, "\n");
    zs_text_styled (text, ZS_STYLE_BOLD, "As fast within 2 %%, with the least GPU memory\n");
    if (nearly->n_changes == 0)
      zs_text_append (text, "  as it is\n");
    write_changes (advice, nearly, text);
    write_numbers (nearly, text);
  }
  write_front (advice, text);
  write_thin (advice, text);
  zs_text_append (text, "\n(each of %u combinations was simulated)\n", advice->trials->len);
  write_ready (advice, best, text);
}
