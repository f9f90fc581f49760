/* scenario-import-liger.c: who asks for Liger's kernels, and how.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario-import.h"

/* Axolotl's plugin has a switch for each, all of them off (integrations/liger/plugin.py). */
static bool
import_axolotl_liger (ZsReader *reader, const ZsNode *root, bool *ret_any)
{
  static const struct {
    const char *key, *kernel;
  } rows[] = {
    { "liger_rope", "rope" },
    { "liger_rms_norm", "rms_norm" },
    { "liger_glu_activation", "swiglu" },
    { "liger_swiglu", "swiglu" },
    { "liger_cross_entropy", "cross_entropy" },
    { "liger_fused_linear_cross_entropy", "fused_linear_cross_entropy" },
  };
  bool given = zs_reader_find (reader, "training.liger") != NULL, ok = true;

  *ret_any = false;
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    *ret_any |= zs_node_get_key (root, rows[i].key) != NULL;
  for (size_t i = 0; *ret_any && !given && i < G_N_ELEMENTS (rows); i++) {
    const ZsNode *node = zs_node_get (root, rows[i].key);
    g_autofree char *path = g_strconcat ("training.liger.", rows[i].kernel, NULL);
    bool on = false;

    ok &= zs_import_switch (reader, root, rows[i].key, &on);
    if (node != NULL && on)
      ok &= zs_reader_put (reader, path, zs_import_at (reader, node, "true"));
    else if (zs_reader_find (reader, path) == NULL)
      ok &= zs_reader_put (reader, path, zs_import_at (reader, root, "false"));
  }
  return ok;
}

/* TrainingArguments' use_liger_kernel (since 4.45) with liger_kernel_config, TRL's older use_liger, LLaMA-Factory's
 * enable_liger_kernel.  Liger takes of the configuration what its function for the model has
 * (_apply_liger_kernel_to_instance () in transformers/monkey_patch.py). */
bool
zs_import_liger (ZsReader *reader, const ZsNode *root)
{
  static const char *const switches[] = { "use_liger_kernel", "use_liger", "enable_liger_kernel" };
  static const char *const kernels[] = { "rope", "swiglu", "rms_norm", "cross_entropy",
                                         "fused_linear_cross_entropy", NULL };
  const ZsNode *config = zs_node_get (root, "liger_kernel_config"), *place = NULL;
  ZsVersions versions = zs_reader_asked_versions (reader);
  bool axolotl = false, given = zs_reader_find (reader, "training.liger") != NULL, ok = true;

  if (zs_import_is_axolotl (root) && !import_axolotl_liger (reader, root, &axolotl))
    return false;
  if (axolotl)
    return true;
  for (size_t i = 0; i < G_N_ELEMENTS (switches); i++) {
    bool on = false;

    ok &= zs_import_switch (reader, root, switches[i], &on);
    if (on)
      place = zs_node_get (root, switches[i]);
    if (on && i == 0 && !zs_behaves (&versions, ZS_BEHAVIOUR_TRAINER_LIGER))
      return zs_node_fail (place, reader->errors,
                           "transformers before 4.45: \"got an unexpected keyword argument 'use_liger_kernel'\"");
  }
  if (!ok || given)
    return ok;
  bool mapping = config != NULL && config->kind == ZS_NODE_MAPPING;

  if (config != NULL && !mapping && !zs_node_is_null (config))
    return zs_node_fail (config, reader->errors, "'liger_kernel_config' must be a mapping, not %s",
                         zs_node_describe (config));
  if (mapping && place == NULL)
    zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", config,
                  "`liger_kernel_config` has no effect without use_liger_kernel");
  if (place == NULL)
    return true;
  for (int i = 0; mapping && i < config->n_items; i++) {
    g_autofree char *path = g_strconcat ("training.liger.", config->keys[i]->text, NULL);
    bool on = false;

    if (!g_strv_contains (kernels, config->keys[i]->text)) {
      zs_import_note_unknown (reader, config->keys[i], "liger_kernel_config", kernels, "");
      continue;
    }
    ok &= zs_import_switch (reader, config, config->keys[i]->text, &on)
          && zs_reader_put (reader, path, zs_import_at (reader, config->items[i], on ? "true" : "false"));
  }
  return ok && zs_reader_put_default (reader, "training.liger", zs_import_at (reader, place, "true"));
}
