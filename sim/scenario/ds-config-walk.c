/* ds-config-walk.c: every key and every value by itself.  SPDX-License-Identifier: MIT
 *
 * Unknown, invented, misplaced, newer, deprecated and dead keys; values of the wrong type or out of
 * range; what "auto" becomes.  Typed sections of DeepSpeed stop the start-up at an unknown key, all
 * others ignore it. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/scenario/ds-config-internal.h"

typedef struct {
  const ZsDsExam *exam;
  const char *path;       /* of the section; "" at the top */
  const ZsDsKey *section; /* NULL at the top */
  bool strict;
} Walk;

static bool
is_pydantic2 (const ZsDsExam *exam)
{
  return zs_ds_behaves (exam, ZS_BEHAVIOUR_PYDANTIC2);
}

/* "zero_optimization", or "the top level" */
static char *
section_of (const char *path)
{
  const char *dot = strrchr (path, '.');

  return dot != NULL ? g_strndup (path, (gsize)(dot - path)) : g_strdup ("the top level");
}

static const char *
section_name (const Walk *walk)
{
  return walk->section != NULL ? walk->path : "the top level";
}

/* ---- keys that are not in the table ---- */

/* What DeepSpeed does about a name that it does not know here. */
static char *
consequence (const Walk *walk)
{
  if (walk->strict)
    return g_strdup_printf ("DeepSpeed does not start: \"%s\"",
                            is_pydantic2 (walk->exam) ? "Extra inputs are not permitted"
                                                      : "extra fields not permitted");
  return g_strdup ("DeepSpeed ignores it without a word");
}

static void
say_foreign (const Walk *walk, const ZsNode *key, const ZsDsKey *row, ZsNoteSeverity severity)
{
  g_autofree char *effect = consequence (walk);
  bool invented = row->status == ZS_DS_INVENTED;

  if (invented)
    zs_ds_say (walk->exam, severity, "invented-key", key, row->see,
               "'%s' was never a key of DeepSpeed, in no release; %s%s%s", key->text, effect,
               row->note != NULL ? "; " : "", row->note != NULL ? row->note : "");
  else
    zs_ds_say (walk->exam, severity, "foreign-key", key, row->see,
               "'%s' is no key of DeepSpeed but of %s; %s", key->text, row->note, effect);
}

static void
say_unknown (const Walk *walk, const ZsNode *key)
{
  ZsNoteSeverity severity = walk->strict ? ZS_NOTE_ERROR : ZS_NOTE_IGNORED;
  const ZsDsKey *foreign = zs_ds_key_find_foreign (key->text);
  const ZsDsKey *elsewhere = zs_ds_key_find_elsewhere (key->text);
  const ZsDsKey *near;
  g_autofree char *effect = consequence (walk);

  if (foreign != NULL && (foreign->status == ZS_DS_INVENTED || elsewhere == NULL)) {
    say_foreign (walk, key, foreign, severity);
    return;
  }
  near = zs_ds_key_nearest (walk->path, key->text);
  /* a slip of the pen in a key of this section, rather than a key of a section that few people use
   */
  if (elsewhere != NULL && near != NULL && zs_word_distance (key->text, zs_ds_key_word (near)) <= 2
      && strchr (elsewhere->path, '.') != NULL
      && !g_str_has_prefix (elsewhere->path, "zero_optimization."))
    elsewhere = NULL;
  if (elsewhere != NULL) {
    g_autofree char *home = section_of (elsewhere->path);
    bool bf16 = walk->section != NULL && strcmp (walk->path, "bf16") == 0
                && g_str_has_prefix (elsewhere->path, "fp16.");

    zs_ds_say (walk->exam, severity, "misplaced-key", key, elsewhere->path,
               "'%s' belongs to %s, not to %s; %s%s", key->text, home, section_name (walk), effect,
               bf16 ? "; bf16 has no loss scaling" : "");
    return;
  }
  if (near == NULL)
    near = zs_ds_key_nearest_anywhere (key->text);
  zs_ds_say (walk->exam, severity, "unknown-key", key, near != NULL ? near->path : NULL,
             "unknown key '%s' in %s; %s%s%s%s", key->text, section_name (walk), effect,
             near != NULL ? "; did you mean '" : "", near != NULL ? zs_ds_key_word (near) : "",
             near != NULL ? "'?" : "");
}

/* ---- keys that are in the table ---- */

/* "1 and 2", "3" */
static const char *
stage_list (unsigned stages)
{
  return stages == ZS_DS_STAGES_3 ? "3" : stages == ZS_DS_STAGES_12 ? "1 and 2" : "1, 2 and 3";
}

/* Keys that only a device `nvme` of their own block reads. */
static bool
needs_nvme (const ZsDsKey *row)
{
  static const char *const WORDS[] = { "nvme_path",     "buffer_count",
                                       "buffer_size",   "max_in_cpu",
                                       "pipeline_read", "pipeline_write",
                                       "fast_init",     NULL };

  return strstr (row->path, "offload_") != NULL && g_strv_contains (WORDS, zs_ds_key_word (row));
}

/* Is the block at PATH an offload block with device none, or without one? */
static bool
is_idle_block (const ZsDsExam *exam, const char *path)
{
  g_autofree char *device = g_strconcat (path, ".device", NULL);
  ZsDsValue value;

  if (!g_str_has_prefix (path, "zero_optimization.offload_"))
    return false;
  zs_ds_value_in_force (exam, device, &value);
  zs_ds_value_clear (&value);
  return g_strcmp0 (value.text, "none") == 0;
}

static bool
device_is (const ZsDsExam *exam, const char *block, const char *device)
{
  g_autofree char *path = g_strconcat (block, ".device", NULL);
  ZsDsValue value;

  zs_ds_value_in_force (exam, path, &value);
  zs_ds_value_clear (&value);
  return g_strcmp0 (value.text, device) == 0;
}

static bool
is_unused (const ZsDsExam *exam, const ZsDsKey *row)
{
  if (row->status != ZS_DS_UNUSED)
    return false;
  return strcmp (row->path, "zero_optimization.allgather_bucket_size") != 0 || exam->stage == 3
         || zs_ds_behaves (exam, ZS_BEHAVIOUR_MULTI_RANK_ALLREDUCE);
}

/* Does the key do anything in this stage and beside the others?  False: said. */
static bool
check_alive (const Walk *walk, const ZsNode *key, const ZsDsKey *row)
{
  const ZsDsExam *exam = walk->exam;
  const char *word = key->text;

  if (is_unused (exam, row)) {
    zs_ds_say (exam, ZS_NOTE_DEAD, "dead-key", key, NULL, "'%s' has no effect: %s", word,
               row->note);
    return false;
  }
  if (row->status != ZS_DS_CURRENT
      || zs_ds_get (exam, "zero_optimization.stage") == NULL) /* no stage: said once */
    return true;
  if ((row->stages & (1u << exam->stage)) == 0) {
    bool section = (row->type & ~ZS_DS_OR_NULL) == ZS_DS_STRICT;
    const char *extra = "";

    /* the section says it for its keys, and a block that asks for nothing loses nothing */
    if (strchr (walk->path, '.') != NULL
        && (zs_ds_key_find (walk->path)->stages & (1u << exam->stage)) == 0)
      return false;
    if (section && is_idle_block (exam, row->path))
      return false;
    if (strcmp (row->path, "zero_optimization.offload_param") == 0)
      extra = ": the weights stay whole on every GPU";
    zs_ds_say (exam, ZS_NOTE_DEAD, "dead-key", key, NULL,
               "'%s' acts in stage %s only; in stage %d it has no effect%s", word,
               stage_list (row->stages), exam->stage, extra);
    return false;
  }
  if (needs_nvme (row) && !is_idle_block (exam, walk->path)
      && !device_is (exam, walk->path, "nvme")) {
    zs_ds_say (exam, ZS_NOTE_DEAD, "dead-key", key, NULL,
               "'%s' acts with \"device\": \"nvme\" only", word);
    return false;
  }
  return true;
}

/* False: the rest of the key's checks do not matter. */
static bool
check_status (const Walk *walk, const ZsNode *key, const ZsNode *value, const ZsDsKey *row)
{
  const ZsDsExam *exam = walk->exam;
  const ZsVersions *versions = &exam->context->versions;
  ZsNoteSeverity refused = walk->strict ? ZS_NOTE_ERROR : ZS_NOTE_IGNORED;
  bool truth;

  if (row->status == ZS_DS_REMOVED && strcmp (zs_ds_key_word (row), "legacy_stage1") == 0) {
    truth = zs_node_bool (value, &truth) && truth;
    zs_ds_say (exam, truth ? ZS_NOTE_ERROR : ZS_NOTE_DEAD, "removed-key", key, NULL,
               truth ? "'legacy_stage1': true stops the start-up since DeepSpeed 0.5.9"
                     : "'legacy_stage1' has no effect since DeepSpeed 0.5.9");
    return false;
  }
  if (row->status == ZS_DS_REMOVED && strcmp (zs_ds_key_word (row), "max_grad_norm") == 0) {
    zs_ds_say (exam, ZS_NOTE_ERROR, "removed-key", key, row->see,
               "\"'max_grad_norm' is not supported as an optimizer parameter, please switch to "
               "using the deepspeed parameter 'gradient_clipping'\"");
    return false;
  }
  if (row->status == ZS_DS_REMOVED) {
    g_autofree char *effect = consequence (walk);

    zs_ds_say (exam, refused, "removed-key", key, row->see, "'%s' is not known any more (%s); %s",
               key->text, row->note, effect);
    return false;
  }
  if (versions->of[ZS_SOFTWARE_DEEPSPEED] < row->since) {
    g_autofree char *since = zs_version_format (row->since);
    g_autofree char *now = zs_version_format (versions->of[ZS_SOFTWARE_DEEPSPEED]);
    g_autofree char *effect = consequence (walk);

    zs_ds_say (exam, refused, "newer-key", key, NULL,
               "'%s' exists from DeepSpeed %s, this is %s; %s", key->text, since, now, effect);
    return false;
  }
  if (row->status == ZS_DS_DEPRECATED) {
    bool dead = strcmp (zs_ds_key_word (row), "cpu_offload_use_pin_memory") == 0;

    zs_ds_say (exam, dead ? ZS_NOTE_DEAD : ZS_NOTE_RISKY, "deprecated-key", key, row->see,
               dead ? "'%s' is deprecated and its value is not carried over: it pins nothing"
                    : "'%s' is deprecated",
               key->text);
  } else if (row->status == ZS_DS_LEGACY && walk->section == NULL) {
    zs_ds_say (exam, ZS_NOTE_INFO, "legacy-section", key, row->see,
               "'%s' belongs to a part of DeepSpeed that is not developed any more", key->text);
  }
  return true;
}

/* ---- values ---- */

/* Does DeepSpeed look at the value before it trains?  Typed sections do; of the others these keys
 * are checked or computed with at the start. */
static bool
is_checked (const Walk *walk, const ZsDsKey *row)
{
  static const char *const PATHS[] = { "train_batch_size",
                                       "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps",
                                       "gradient_clipping",
                                       "communication_data_type",
                                       "seq_parallel_communication_data_type",
                                       "data_types.grad_accum_dtype",
                                       "zero_optimization",
                                       "fp16",
                                       "bf16",
                                       "optimizer",
                                       "scheduler",
                                       "aio",
                                       "fp16.enabled",
                                       "bf16.enabled",
                                       "fp16.loss_scale",
                                       "checkpoint.tag_validation",
                                       NULL };

  return walk->strict || g_strv_contains (PATHS, row->path);
}

static bool
is_precision (const ZsDsKey *row)
{
  return strcmp (row->path, "fp16.enabled") == 0 || strcmp (row->path, "bf16.enabled") == 0;
}

static void
say_auto_without_hugging_face (const Walk *walk, const ZsNode *value, const ZsDsKey *row)
{
  const ZsDsExam *exam = walk->exam;
  const char *word = zs_ds_key_word (row);
  const char *fallback = zs_ds_key_fallback (row, &exam->context->versions);
  bool precision = is_precision (row);

  if (precision && !walk->strict)
    zs_ds_say (exam, ZS_NOTE_RISKY, "auto-without-hf", value, "true or false",
               "\"auto\" is Hugging Face's word; here it is a text that counts as true");
  else if (precision)
    zs_ds_say (
        exam, ZS_NOTE_RISKY, "auto-without-hf", value, "true or false",
        "\"auto\" is Hugging Face's word; DeepSpeed drops it: %s is off, and without the other "
        "half precision the training is in fp32",
        row->path);
  else if (walk->strict)
    zs_ds_say (exam, ZS_NOTE_RISKY, "auto-without-hf", value, fallback,
               "\"auto\" is Hugging Face's word; DeepSpeed drops it, and the default %s of '%s' "
               "applies",
               fallback, word);
  else
    zs_ds_say (
        exam, ZS_NOTE_ERROR, "auto-without-hf", value, NULL,
        "\"auto\" is Hugging Face's word; for DeepSpeed '%s' is a text, and computing with it "
        "fails: \"'>' not supported between instances of 'str' and 'int'\"",
        word);
}

static void
say_auto (const Walk *walk, const ZsNode *value, const ZsDsKey *row)
{
  const ZsDsExam *exam = walk->exam;
  const ZsDsContext *context = exam->context;
  const char *how = zs_ds_auto_how (row->path), *fallback;
  double number;

  if (context->caller == ZS_DS_PLAIN) {
    say_auto_without_hugging_face (walk, value, row);
    return;
  }
  if (!zs_ds_auto_has_rule (exam, row->path)) {
    fallback = zs_ds_key_fallback (row, &context->versions);
    if (walk->strict)
      zs_ds_say (
          exam, ZS_NOTE_RISKY, "auto-without-rule", value, fallback,
          "Hugging Face has no rule for an \"auto\" here; DeepSpeed drops it, and the default "
          "%s of '%s' applies",
          fallback, zs_ds_key_word (row));
    else if (walk->section == NULL || walk->section->type != ZS_DS_FREE)
      zs_ds_say (exam, ZS_NOTE_RISKY, "auto-without-rule", value, fallback,
                 "Hugging Face has no rule for an \"auto\" of '%s': the text stays", row->path);
    return;
  }
  fallback = zs_ds_key_fallback (row, &context->versions);
  g_autofree char *alone =
      context->caller == ZS_DS_EITHER && walk->strict && !is_precision (row)
          ? g_strdup_printf ("; DeepSpeed alone takes its default %s", fallback)
          : g_strdup ("");

  if (is_precision (row) && !context->dtype_given) {
    zs_ds_say (exam, ZS_NOTE_INFO, "auto-resolved", value, NULL,
               "\"auto\" is filled in by Hugging Face only, from %s", how);
    return;
  }
  if (!zs_ds_auto_resolve (exam, row->path, &number, &how)) {
    bool hidden = strstr (how, "hidden") != NULL;

    zs_ds_say (exam, ZS_NOTE_INFO, hidden ? "auto-unresolved" : "auto-resolved", value, NULL,
               hidden ? "\"auto\" is filled in by Hugging Face only, from the model: %s%s"
                      : "\"auto\" is filled in by Hugging Face only: %s%s",
               how, alone);
    return;
  }
  if (is_precision (row)) {
    zs_ds_say (exam, ZS_NOTE_INFO, "auto-resolved", value, NULL,
               "\"auto\" is filled in by Hugging Face only, from %s: %s", how,
               number != 0 ? "true" : "false");
    return;
  }

  double exact = 0.9 * (double)context->hidden * (double)context->hidden;

  if (strstr (how, "0.9") != NULL && exact != floor (exact) && is_pydantic2 (exam)
      && !zs_behaves (&context->versions, ZS_BEHAVIOUR_AUTO_PREFETCH_IS_INTEGER)) {
    g_autofree char *whole = g_strdup_printf ("%.0f", floor (exact));

    zs_ds_say (exam, ZS_NOTE_ERROR, "fractional-size", value, whole,
               "this transformers fills in %.1f (0.9 * hidden size squared): \"Input should be a "
               "valid integer, got a number with a fractional part\" from DeepSpeed 0.15",
               exact);
    return;
  }
  g_autofree char *text =
      number == floor (number) ? zs_count_format ((int64_t)number) : g_strdup_printf ("%g", number);

  zs_ds_say (exam, ZS_NOTE_INFO, "auto-resolved", value, NULL,
             "\"auto\" is filled in by Hugging Face only, with %s (%s)%s", text, how, alone);
}

static void
check_value (const Walk *walk, const ZsNode *node, const ZsDsKey *row, bool alive)
{
  const ZsDsExam *exam = walk->exam;
  ZsDsValue value;

  zs_ds_value_read (row, node, &exam->context->versions, &value);
  if (value.is_auto) {
    if (alive)
      say_auto (walk, node, row);
  } else if (value.code != NULL && value.severity == ZS_NOTE_ERROR && !is_checked (walk, row)) {
    zs_ds_say (exam, ZS_NOTE_RISKY, value.code, node, value.instead,
               "%s; DeepSpeed does not look at it before it is used", value.problem);
  } else if (value.code != NULL) {
    bool python =
        node->kind == ZS_NODE_SCALAR && node->quoted
        && (g_str_has_prefix (node->text, "True") || g_str_has_prefix (node->text, "False"));

    zs_ds_say (exam, value.severity, python ? "python-literal" : value.code, node,
               python ? (*node->text == 'T' ? "true" : "false") : value.instead, "%s%s",
               value.problem, python ? " (JSON writes true and false in small letters)" : "");
  }
  zs_ds_value_clear (&value);
}

/* A parameter of a scheduler other than the one chosen: the scheduler's constructor refuses it. */
static bool
check_scheduler (const Walk *walk, const ZsNode *key, const ZsDsKey *row)
{
  const ZsNode *type = zs_ds_get (walk->exam, "scheduler.type");

  if (!g_str_has_prefix (row->path, "scheduler.params.") || row->note == NULL || type == NULL
      || type->kind != ZS_NODE_SCALAR || strcmp (row->note, "all") == 0)
    return true;
  if (strstr (row->note, type->text) != NULL
      || (strcmp (row->note, "Warmup*") == 0 && g_str_has_prefix (type->text, "Warmup")))
    return true;
  zs_ds_say (walk->exam, ZS_NOTE_ERROR, "wrong-scheduler-param", key, NULL,
             "'%s' is a parameter of %s, not of %s: \"got an unexpected keyword argument\"",
             key->text, row->note, type->text);
  return false;
}

static void
walk_section (const ZsDsExam *exam, const ZsNode *object, const char *path)
{
  Walk walk = { .exam = exam, .path = path };

  if (*path != '\0') {
    walk.section = zs_ds_key_find (path);
    walk.strict = zs_ds_key_is_strict (walk.section, &exam->context->versions);
  }
  for (int i = 0; i < object->n_items; i++) {
    const ZsNode *key = object->keys[i], *value = object->items[i];
    g_autofree char *full =
        *path != '\0' ? g_strconcat (path, ".", key->text, NULL) : g_strdup (key->text);
    const ZsDsKey *row = zs_ds_key_find (full);
    const int type = row != NULL ? row->type & ~ZS_DS_OR_NULL : ZS_DS_ANY;

    if (row == NULL) {
      if (walk.section == NULL || (walk.section->type & ~ZS_DS_OR_NULL) != ZS_DS_FREE)
        say_unknown (&walk, key);
      else if (strcmp (path, "optimizer.params") == 0) {
        const ZsDsKey *near = zs_ds_key_nearest (path, key->text);

        if (near != NULL)
          zs_ds_say (exam, ZS_NOTE_RISKY, "unknown-optimizer-param", key, near->path,
                     "'%s' is handed to the optimizer, which may not know it; did you mean '%s'?",
                     key->text, zs_ds_key_word (near));
      }
      continue;
    }
    if (strcmp (key->text, "bfloat16") == 0 && walk.section == NULL)
      zs_ds_say (exam, ZS_NOTE_INFO, "old-name", key, "bf16",
                 "'bfloat16' is an old name of 'bf16'");
    if (strcmp (full, "zero_optimization") == 0 && value->kind == ZS_NODE_SCALAR
        && zs_node_bool (value, &(bool){ false })) {
      zs_ds_say (exam, ZS_NOTE_RISKY, "deprecated-key", key, "{\"stage\": 1}",
                 "\"zero_optimization\": %s is the form of the first releases and means stage %d",
                 value->text, exam->stage);
      continue;
    }
    if (!check_status (&walk, key, value, row) || !check_scheduler (&walk, key, row))
      continue;
    bool alive = check_alive (&walk, key, row);

    check_value (&walk, value, row, alive);
    if (value->kind == ZS_NODE_MAPPING
        && (type == ZS_DS_OBJECT || type == ZS_DS_STRICT || type == ZS_DS_FREE)) {
      g_autofree char *inner = g_strdup (row->path); /* the alias's own name */

      walk_section (exam, value, inner);
    }
  }
}

void
zs_ds_walk (const ZsDsExam *exam)
{
  walk_section (exam, exam->root, "");
}
