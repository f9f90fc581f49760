/* rules-optimizer.c: parameters that an optimizer's class does not take.  SPDX-License-Identifier: MIT
 *
 * The engine hands `optimizer.params` to the class as keyword arguments (deepspeed/runtime/engine.py,
 * _configure_basic_optimizer), so that one it does not know is a TypeError at the start.  The lists are the
 * arguments of deepspeed/ops/{adam,lamb,lion,adagrad}, deepspeed/runtime/fp16/onebit and torch.optim. */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/scenario/ds-keys.h"

#define ADAM " lr betas eps weight_decay bias_correction amsgrad set_grad_none "
#define ONE_BIT                                                                                    \
  " lr betas eps weight_decay bias_correction amsgrad eps_inside_sqrt max_grad_norm freeze_step "  \
  "cuda_aware comm_backend_name "

static const struct {
  const char *type, *class, *params;
} CLASSES[] = {
  { "adam", "DeepSpeed's Adam", ADAM "torch_adam adam_w_mode fp32_optimizer_states fused foreach " },
  { "adamw", "DeepSpeed's Adam", ADAM "torch_adam adam_w_mode fp32_optimizer_states fused foreach " },
  { "lamb", "FusedLamb",
    " lr betas eps weight_decay bias_correction amsgrad eps_inside_sqrt max_grad_norm max_coeff "
    "min_coeff " },
  { "lion", "FusedLion", " lr betas weight_decay set_grad_none fp32_optimizer_states " },
  { "adagrad", "DeepSpeedCPUAdagrad", " lr eps weight_decay amsgrad fp32_optimizer_states " },
  { "onebitadam", "OnebitAdam", ONE_BIT },
  { "zerooneadam", "ZeroOneAdam",
    ONE_BIT "var_freeze_step var_update_scaler local_step_scaler local_step_clipper " },
  { "onebitlamb", "OnebitLamb",
    ONE_BIT "max_coeff min_coeff coeff_beta factor_max factor_min factor_threshold " },
  { "muon", "MuonWithAuxAdam", " lr betas eps weight_decay momentum muon_lr adam_lr ns_method " },
  { "sgd", "torch.optim.SGD",
    " lr momentum dampening weight_decay nesterov maximize foreach differentiable fused " },
};

void
zs_check_rule_optimizer_params (const ZsCheck *check)
{
  const ZsNode *type = zs_ds_config_get (check->root, "optimizer.type");
  const ZsNode *params = zs_ds_config_get (check->root, "optimizer.params");
  size_t row = 0;

  if (type == NULL || type->kind != ZS_NODE_SCALAR || params == NULL
      || params->kind != ZS_NODE_MAPPING)
    return;
  while (row < G_N_ELEMENTS (CLASSES) && g_ascii_strcasecmp (CLASSES[row].type, type->text) != 0)
    row++;
  if (row == G_N_ELEMENTS (CLASSES))
    return;
  for (int i = 0; i < params->n_items; i++) {
    const char *name = params->keys[i]->text;
    g_autofree char *word = g_strconcat (" ", name, " ", NULL);
    g_autofree char *path = g_strconcat ("optimizer.params.", name, NULL);
    const ZsDsKey *known = zs_ds_key_find (path);
    bool reported = known == NULL && zs_ds_key_nearest ("optimizer.params", name) != NULL;

    /* what no optimizer takes any more, or is nearly a name, is reported by the reader */
    if (strstr (CLASSES[row].params, word) != NULL || reported || strcmp (name, "max_grad_norm") == 0)
      continue;
    zs_findings_add (check->findings, ZS_NOTE_ERROR, "wrong-optimizer-param", params->keys[i], NULL,
                     "'%s' is no argument of %s: \"got an unexpected keyword argument '%s'\"; it takes%s",
                     name, CLASSES[row].class, name, CLASSES[row].params);
  }
}
