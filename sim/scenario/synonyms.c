/* synonyms.c: what people write for a setting, a model or some GPUs, in the words of this program.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/synonyms.h"

#include <string.h>

/* Words of transformers, TRL, LLaMA-Factory, accelerate and the flags of this program. */
static const struct {
  const char *word, *path;
} SETTINGS[] = {
  { "seq", "training.sequence_length" },
  { "seq_len", "training.sequence_length" },
  { "seq_length", "training.sequence_length" },
  { "max_length", "training.sequence_length" },
  { "max_seq_length", "training.sequence_length" },
  { "model_max_length", "training.sequence_length" },
  { "cutoff_len", "training.sequence_length" },
  { "block_size", "training.sequence_length" },
  { "per_device_train_batch_size", "training.micro_batch" },
  { "micro_batch_size", "training.micro_batch" },
  { "accumulation", "training.gradient_accumulation" },
  { "gradient_checkpointing", "training.checkpointing" },
  { "attn_implementation", "training.attention" },
  { "use_liger_kernel", "training.liger" },
  { "enable_liger_kernel", "training.liger" },
  { "use_liger", "training.liger" },
  { "liger_kernel_config", "training.liger" },
  { "max_grad_norm", "training.gradient_clipping" },
  { "deepspeed_version", "training.framework_version" },
  { "lora_rank", "training.lora.rank" },
  { "lora_r", "training.lora.rank" },
  { "lora_target_modules", "training.lora.targets" },
  { "gpus", "cluster.gpus_per_node" },
  { "num_gpus", "cluster.gpus_per_node" },
  { "nnodes", "cluster.nodes" },
  { "num_machines", "cluster.nodes" },
  { "host_memory", "cluster.host.memory" },
  { "model_name_or_path", "model" },
  { "layers", "model.layers" },
  { "num_hidden_layers", "model.num_hidden_layers" },
  { "hidden_size", "model.hidden_size" },
  { "intermediate_size", "model.intermediate_size" },
  { "vocab_size", "model.vocab_size" },
  { "num_attention_heads", "model.num_attention_heads" },
  { "num_key_value_heads", "model.num_key_value_heads" },
};

const char *
zs_setting_of_word (const char *word)
{
  for (size_t i = 0; i < G_N_ELEMENTS (SETTINGS); i++)
    if (strcmp (SETTINGS[i].word, word) == 0)
      return SETTINGS[i].path;
  return NULL;
}

bool
zs_is_variable (const char *word)
{
  static const char *const prefixes[] = { "NCCL_", "PYTORCH_", "CUDA_", "OMP_" };

  for (size_t i = 0; i < G_N_ELEMENTS (prefixes); i++)
    if (g_str_has_prefix (word, prefixes[i]))
      return true;
  return false;
}

/* ---- GPUs ---- */

static const char *
skip_space (const char *text)
{
  while (*text == ' ')
    text++;
  return text;
}

static bool
is_times (char c)
{
  return c == 'x' || c == 'X' || c == '*';
}

void
zs_split_gpus (const char *text, char **ret_count, char **ret_name)
{
  const char *digits = skip_space (text), *times = digits;

  while (g_ascii_isdigit (*times))
    times++;
  if (times > digits && is_times (*skip_space (times))) {
    *ret_count = g_strndup (digits, (gsize) (times - digits));
    *ret_name = g_strdup (skip_space (skip_space (times) + 1));
    return;
  }

  /* "H100:8", "A100-80G x 8"; four digits are a name: RTX4090 */
  const char *end = text + strlen (text), *last = end;

  while (last > text && g_ascii_isdigit (last[-1]))
    last--;
  const char *sign = last;

  while (sign > text && sign[-1] == ' ')
    sign--;
  if (last < end && end - last <= 2 && sign > text + 1 && (is_times (sign[-1]) || sign[-1] == ':')) {
    *ret_count = g_strdup (last);
    *ret_name = g_strchomp (g_strndup (text, (gsize) (sign - 1 - text)));
    return;
  }
  *ret_count = g_strdup ("1");
  *ret_name = g_strdup (text);
}

/* ---- models ---- */

/* What a tuned model is called beside its base, which has the same dimensions. */
static const char *const TUNED[] = { "-hf", "-base", "-instruct", "-chat", "-it", "-sft", "-dpo" };

char *
zs_base_of_model (const char *name)
{
  const char *slash = strrchr (name, '/');
  g_autofree char *base = g_strdup (slash != NULL ? slash + 1 : name);
  bool cut = slash != NULL && slash != name, again = true;

  while (again) {
    again = false;
    for (size_t i = 0; i < G_N_ELEMENTS (TUNED); i++) {
      size_t length = strlen (base), tail = strlen (TUNED[i]);

      if (length > tail && g_ascii_strcasecmp (base + length - tail, TUNED[i]) == 0) {
        base[length - tail] = '\0';
        cut = again = true;
      }
    }
  }
  return cut ? g_steal_pointer (&base) : NULL;
}
