/* scenario-import-fsdp.c: FSDP as accelerate's file and TrainingArguments ask for it.
 * SPDX-License-Identifier: MIT
 *
 * Sources: accelerate's FullyShardedDataParallelPlugin (utils/dataclasses.py), its launcher's defaults
 * (commands/launch.py) and fsdp2_prepare_model () (utils/fsdp_utils.py); transformers'
 * _process_fsdp_args () (training_args.py). */
#include "config.h"

#include <string.h>

#include "sim/scenario/scenario-import.h"

/* Keys of both, with "fsdp_" or without. */
#define COMMON_KEYS                                                                                            \
  "version", "reshard_after_forward", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params",   \
    "backward_prefetch", "forward_prefetch", "state_dict_type", "use_orig_params", "cpu_ram_efficient_loading", \
    "sync_module_states", "activation_checkpointing", "limit_all_gathers"
static const char *const ACCELERATE_KEYS[] = { COMMON_KEYS, "sharding_strategy", "offload_params",
                                               "activation_checkpointing_offload", "ignored_modules",
                                               "backward_prefetch_policy", NULL };
static const char *const TRAINER_KEYS[] = { COMMON_KEYS, "cpu_offload", "xla", "xla_fsdp_v2", "xla_fsdp_settings",
                                            "xla_fsdp_grad_ckpt", "backward_prefetch_policy", NULL };

/* FSDP's ShardingStrategy, by name and by number (torch/distributed/fsdp/api.py), in the order of the
 * numbers; Trainer writes the names small. */
static const char *const STRATEGIES[] = { "FULL_SHARD",         "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                          "HYBRID_SHARD_ZERO2", "1",             "2",        "3",
                                          "4",                  "5",             NULL };
enum { FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, N_STRATEGIES };

static const char *
bare (const char *key)
{
  return g_str_has_prefix (key, "fsdp_") ? key + strlen ("fsdp_") : key;
}

bool
zs_import_is_fsdp_key (const char *key)
{
  return g_strv_contains (ACCELERATE_KEYS, bare (key));
}

const char *const *
zs_scenario_fsdp_keys (void)
{
  return ACCELERATE_KEYS;
}

/* What is under KEY, or "fsdp_" and KEY; NULL where it is missing or null. */
static ZsNode *
get (const ZsNode *block, const char *key)
{
  g_autofree char *full = g_strconcat ("fsdp_", key, NULL);
  ZsNode *node = zs_node_get (block, full);

  if (node == NULL || zs_node_is_null (node))
    node = zs_node_get (block, key);
  return zs_node_is_null (node) ? NULL : node;
}

static bool
import_strategy (ZsReader *reader, const ZsNode *node, int strategy)
{
  bool gathered = strategy == SHARD_GRAD_OP || strategy == HYBRID_SHARD_ZERO2;
  bool hybrid = strategy == HYBRID_SHARD || strategy == HYBRID_SHARD_ZERO2;

  if (strategy == NO_SHARD)
    return zs_reader_put (reader, "training.framework", zs_import_at (reader, node, "ddp"));
  return zs_reader_put_default (reader, "training.fsdp.reshard_after_forward",
                                zs_import_at (reader, node, gathered ? "false" : "true"))
         & zs_reader_put_default (reader, "training.fsdp.hybrid",
                                  zs_import_at (reader, node, hybrid ? "true" : "false"));
}

/* `reshard_after_forward`: true or false for version 2, a strategy for version 1. */
static bool
import_resharding (ZsReader *reader, const ZsNode *block)
{
  const ZsNode *strategy_node = get (block, "sharding_strategy");
  ZsNode *reshard = get (block, "reshard_after_forward");
  int strategy;

  if (reshard != NULL && reshard->kind == ZS_NODE_SCALAR
      && (g_ascii_strcasecmp (reshard->text, "true") == 0 || g_ascii_strcasecmp (reshard->text, "false") == 0))
    return zs_reader_put_default (
        reader, "training.fsdp.reshard_after_forward",
        zs_import_at (reader, reshard, g_ascii_tolower (reshard->text[0]) == 't' ? "true" : "false"));
  if (reshard != NULL && strategy_node == NULL) {
    g_autofree char *upper = reshard->kind == ZS_NODE_SCALAR ? g_ascii_strup (reshard->text, -1) : NULL;

    strategy_node = upper != NULL ? zs_import_at (reader, reshard, upper) : reshard;
  }
  return strategy_node == NULL
         || (zs_import_word (reader, strategy_node,
                             reshard != NULL ? "fsdp_reshard_after_forward" : "fsdp_sharding_strategy", STRATEGIES,
                             &strategy)
             && import_strategy (reader, strategy_node, strategy % N_STRATEGIES));
}

/* Without a policy the whole model is one unit. */
static void
note_wrapping (ZsReader *reader, const ZsNode *block, const ZsNode *place, bool trainer)
{
  ZsVersions versions = zs_reader_asked_versions (reader);
  const ZsNode *policy = get (block, "auto_wrap_policy");
  const char *word = policy != NULL && policy->kind == ZS_NODE_SCALAR ? policy->text
                     : trainer && zs_behaves (&versions, ZS_BEHAVIOUR_TRAINER_FSDP2) ? "TRANSFORMER_BASED_WRAP"
                     : trainer ? "" /* its `fsdp` may say auto_wrap */
                               : "NO_WRAP";

  if (g_ascii_strcasecmp (word, "NO_WRAP") == 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "no-wrapping", policy != NULL ? policy : place,
                  "without an auto_wrap_policy the whole model is one unit, gathered at once, which is not "
                  "simulated: here each layer is one, as with TRANSFORMER_BASED_WRAP");
  else if (g_ascii_strcasecmp (word, "SIZE_BASED_WRAP") == 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "wrapping", policy,
                  "units by size are not simulated: here each layer is one, as with TRANSFORMER_BASED_WRAP");
}

bool
zs_import_fsdp (ZsReader *reader, const ZsNode *block, const ZsNode *place, ZsImportFsdp whose)
{
  static const ZsImportKey rows[] = {
    { "limit_all_gathers", "training.fsdp.limit_all_gathers" },
    { "use_orig_params", "training.fsdp.use_orig_params" },
    { "backward_prefetch", "training.fsdp.backward_prefetch" },
  };
  static const char *const version_words[] = { "1", "2", NULL };
  bool trainer = whose == ZS_IMPORT_TRAINER, ok = true, checkpointed = false;
  ZsVersions versions = zs_reader_asked_versions (reader);
  int version = trainer && zs_behaves (&versions, ZS_BEHAVIOUR_TRAINER_FSDP2); /* index of version_words */

  if (block->kind != ZS_NODE_MAPPING)
    return zs_node_fail (block, reader->errors, "'fsdp_config' must be a mapping (key: value), not %s",
                         zs_node_describe (block));
  for (int i = 0; i < block->n_items && whose != ZS_IMPORT_FLAT; i++)
    if (!g_strv_contains (trainer ? TRAINER_KEYS : ACCELERATE_KEYS, bare (block->keys[i]->text)))
      zs_import_note_unknown (reader, block->keys[i], trainer ? "Trainer's fsdp_config" : "fsdp_config",
                                  trainer ? TRAINER_KEYS : ACCELERATE_KEYS, "fsdp_");

  const ZsNode *version_node = get (block, "version");
  const ZsNode *checkpointing = get (block, "activation_checkpointing");
  const ZsNode *offload = get (block, trainer ? "cpu_offload" : "offload_params");
  bool offloaded = false;

  if (version_node != NULL)
    ok &= zs_import_word (reader, version_node, "fsdp_version", version_words, &version);
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    const ZsNode *node = get (block, rows[i].key);
    bool truth;

    if (node == NULL)
      continue;
    ok &= zs_reader_put_default (reader, rows[i].path,
                                 zs_import_truth (node, &truth) ? zs_import_at (reader, node, truth ? "true" : "false")
                                                                : (ZsNode *)node);
  }
  if (offload != NULL && !zs_import_truth (offload, &offloaded))
    ok &= zs_import_no_truth (reader, offload, "cpu_offload");
  else if (offload != NULL)
    ok &= zs_reader_put_default (reader, "training.fsdp.cpu_offload",
                                 zs_import_at (reader, offload, offloaded ? "true" : "false"));
  ok &= zs_reader_put_default (reader, "training.framework",
                               zs_import_at (reader, version_node != NULL ? version_node : place,
                                             version == 1 ? "fsdp2" : "fsdp"))
        & zs_reader_put_default (reader, "training.hugging_face", zs_import_at (reader, place, "true"));
  if (version == 0) /* both leave it None, which is no prefetch, where nothing is said */
    ok &= zs_reader_put_default (reader, "training.fsdp.backward_prefetch", zs_import_at (reader, place, "none"));
  ok &= import_resharding (reader, block);
  note_wrapping (reader, block, place, trainer);
  if (checkpointing != NULL && !zs_import_truth (checkpointing, &checkpointed))
    ok &= zs_import_no_truth (reader, checkpointing, "activation_checkpointing");
  if (checkpointed)
    ok &= zs_reader_put_default (reader, "training.checkpointing", zs_import_at (reader, checkpointing, "full"));
  return ok;
}

/* One of the words of `fsdp`; what they add to STRATEGY and OFFLOAD. */
static bool
read_word (ZsReader *reader, const ZsNode *item, const char *text, int *strategy, bool *offload)
{
  enum { OFFLOAD = N_STRATEGIES, AUTO_WRAP };
  static const char *const words[] = { "full_shard",         "shard_grad_op", "no_shard",  "hybrid_shard",
                                       "hybrid_shard_zero2", "offload",       "auto_wrap", NULL };
  int word = AUTO_WRAP;

  if (!zs_import_word (reader, zs_import_at (reader, item, text), "fsdp", words, &word))
    return false;
  if (word < N_STRATEGIES)
    *strategy = word;
  *offload |= word == OFFLOAD;
  return true;
}

/* fsdp_config itself, or the file that it names; NULL if that was no success. */
static const ZsNode *
load_config (ZsReader *reader, const ZsNode *config)
{
  g_autofree char *path = NULL;

  if (config->kind != ZS_NODE_SCALAR || !config->quoted)
    return config;
  path = zs_reader_file (config);
  return zs_import_load (reader, path);
}

/* Words in a string or a list, or true; `fsdp_config` beside it. */
bool
zs_import_fsdp_words (ZsReader *reader, const ZsNode *root, const ZsNode *fsdp, bool *ret_sharded)
{
  const ZsNode *config = zs_node_get (root, "fsdp_config");
  ZsVersions versions = zs_reader_asked_versions (reader);
  bool on = false, offload = false, ok = true, list = fsdp->kind == ZS_NODE_SEQUENCE;
  int strategy = -1;

  if (zs_node_is_null (fsdp))
    return true;
  if (fsdp->kind == ZS_NODE_MAPPING)
    return zs_node_fail (fsdp, reader->errors, "'fsdp' must be words such as \"full_shard auto_wrap\", not a mapping");
  if (zs_import_truth (fsdp, &on)) {
    strategy = on ? FULL_SHARD : -1;
  } else {
    for (int i = 0; i < (list ? fsdp->n_items : 1); i++) {
      const ZsNode *item = list ? fsdp->items[i] : fsdp;
      g_auto (GStrv) parts = item->kind == ZS_NODE_SCALAR ? g_strsplit_set (item->text, " ,", -1) : NULL;

      if (parts == NULL)
        return zs_node_fail (item, reader->errors, "'fsdp' holds %s where a word is wanted", zs_node_describe (item));
      for (char **part = parts; *part != NULL; part++)
        if (**part != '\0' && !read_word (reader, item, *part, &strategy, &offload))
          return false;
    }
    if (strategy < 0)
      return !offload
             || zs_node_fail (fsdp, reader->errors,
                              "'fsdp' says how to offload, but not how to shard: add full_shard");
  }
  if (strategy < 0)
    return true;
  *ret_sharded = strategy != NO_SHARD;
  if (config != NULL && zs_node_is_null (config))
    config = NULL;
  if (config != NULL && (config = load_config (reader, config)) == NULL)
    return false;
  const ZsNode *version = config != NULL && config->kind == ZS_NODE_MAPPING ? get (config, "version") : NULL;
  bool second = version != NULL ? version->kind == ZS_NODE_SCALAR && strcmp (version->text, "2") == 0
                                : zs_behaves (&versions, ZS_BEHAVIOUR_TRAINER_FSDP2);

  if (second && strategy > SHARD_GRAD_OP) {
    g_autofree char *small = g_ascii_strdown (STRATEGIES[strategy], -1);

    return zs_node_fail (fsdp, reader->errors,
                         "transformers: \"`fsdp=%s` is only available with FSDP1. Set `fsdp_config['version'] = 1` "
                         "to use it\"", small);
  }
  if (offload)
    ok &= zs_reader_put_default (reader, "training.fsdp.cpu_offload", zs_import_at (reader, fsdp, "true"));
  if (config == NULL || config->kind != ZS_NODE_MAPPING || get (config, "reshard_after_forward") == NULL
      || strategy == NO_SHARD)
    ok &= import_strategy (reader, fsdp, strategy);
  if (strategy == NO_SHARD)
    return ok;
  if (config == NULL)
    config = zs_document_node (reader->document, ZS_NODE_MAPPING, fsdp->line, fsdp->column, NULL);
  return zs_import_fsdp (reader, config, fsdp, ZS_IMPORT_TRAINER) && ok;
}
