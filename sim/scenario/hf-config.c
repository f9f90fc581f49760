/* hf-config.c: Hugging Face's config.json.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/hf-config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/io/schema.h"

typedef enum { FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2, FAMILY_QWEN3 } Family;

typedef struct {
  const char *type; /* model_type */
  const char *architecture;
  Family family;
  /* where config.json says nothing, from the configuration class of transformers; 0: no default */
  int64_t n_kv_heads; /* 0: as many as heads */
  int64_t head_dim;   /* 0: hidden / heads */
} Architecture;

static const Architecture ARCHITECTURES[] = {
  { "llama", "LlamaForCausalLM", FAMILY_LLAMA, 0, 0 },
  { "mistral", "MistralForCausalLM", FAMILY_MISTRAL, 8, 0 },
  { "qwen2", "Qwen2ForCausalLM", FAMILY_QWEN2, 32, 0 },
  { "qwen3", "Qwen3ForCausalLM", FAMILY_QWEN3, 32, 128 },
};

/* Others that people have, and what stands nearest to them. */
static const struct {
  const char *type, *why;
} REFUSED[] = {
  { "mixtral", "it is a mixture of experts; mistral-7b-v0.1 is its dense relative" },
  { "qwen2_moe", "it is a mixture of experts; qwen2.5-14b is a dense model of that size class" },
  { "qwen3_moe", "it is a mixture of experts; qwen3-32b is a dense model of that size class" },
  { "deepseek_v2", "it is a mixture of experts with latent attention" },
  { "deepseek_v3", "it is a mixture of experts with latent attention" },
  { "gpt_oss", "it is a mixture of experts" },
  { "qwen",
    "its first generation is not in transformers; llama-7b with vocabulary 151936 and qkv_bias "
    "has its dimensions" },
  { "gemma", "its norms and its embedding differ; llama-3.2-3b stands near gemma-2b" },
  { "gemma2", "its norms and its attention differ; llama-3.1-8b stands near gemma-2-9b" },
  { "gemma3", "its norms and its attention differ; llama-3.1-8b stands near gemma-3-12b" },
  { "phi", "its layers run attention and MLP side by side" },
  { "phi3", "its projections are fused; llama-3.2-3b stands near phi-3-mini" },
  { "gpt2", "it is no LLaMA-like model" },
  { "gpt_neox", "it is no LLaMA-like model; tinyllama-1.1b stands near pythia-1b" },
  { "opt", "it is no LLaMA-like model" },
  { "bloom", "it is no LLaMA-like model" },
  { "falcon", "it is no LLaMA-like model" },
  { "mpt", "it is no LLaMA-like model" },
  { "chatglm", "it is no LLaMA-like model" },
  { "baichuan", "its projections are fused; llama-2-7b stands near baichuan-7b" },
  { "bert", "it is an encoder" },
  { "t5", "it is an encoder and a decoder" },
  { "mllama", "it sees images; llama-3.1-8b is its text model" },
  { "llava", "it sees images; llama-2-7b is its text model" },
  { "qwen2_vl", "it sees images; qwen2-7b is its text model" },
};

typedef struct {
  int64_t hidden, intermediate, n_layers, n_heads, n_kv_heads, head_dim, vocabulary, max_position;
  bool tied, attention_bias, qkv_bias, mlp_bias, use_sliding_window;
  int64_t sliding_window;
  const char *dtype;
} Values;

#define LARGEST (1 << 20)
static const ZsField FIELDS[] = {
  { ZS_FIELD ("hidden_size", INT, Values, hidden), .min = 1, .max = LARGEST, .required = true },
  { ZS_FIELD ("intermediate_size", INT, Values, intermediate), .min = 1, .max = 4 * LARGEST,
    .required = true },
  { ZS_FIELD ("num_hidden_layers", INT, Values, n_layers), .min = 1, .max = 4096,
    .required = true },
  { ZS_FIELD ("num_attention_heads", INT, Values, n_heads), .min = 1, .max = 4096,
    .required = true },
  { ZS_FIELD ("num_key_value_heads", INT, Values, n_kv_heads), .min = 1, .max = 4096 },
  { ZS_FIELD ("head_dim", INT, Values, head_dim), .min = 1, .max = 4096 },
  { ZS_FIELD ("vocab_size", INT, Values, vocabulary), .min = 1, .max = 16 * LARGEST,
    .required = true },
  { ZS_FIELD ("max_position_embeddings", INT, Values, max_position), .min = 1 },
  { ZS_FIELD ("tie_word_embeddings", BOOL, Values, tied) },
  { ZS_FIELD ("attention_bias", BOOL, Values, attention_bias) },
  { ZS_FIELD ("qkv_bias", BOOL, Values, qkv_bias) }, /* ours: Qwen of the first generation */
  { ZS_FIELD ("mlp_bias", BOOL, Values, mlp_bias) },
  { ZS_FIELD ("sliding_window", INT, Values, sliding_window) },
  { ZS_FIELD ("use_sliding_window", BOOL, Values, use_sliding_window) },
  { ZS_FIELD ("dtype", STRING, Values, dtype) },
  { ZS_FIELD ("torch_dtype", STRING, Values, dtype) },
};

int64_t
zs_shape_parameters (const ZsModelShape *shape)
{
  int64_t h = shape->hidden, q = shape->n_heads * shape->head_dim;
  int64_t kv = shape->n_kv_heads * shape->head_dim;
  int64_t layer = h * q + 2 * h * kv + q * h + 3 * h * shape->intermediate + 2 * h;

  if (shape->qkv_bias || shape->attention_bias_all)
    layer += q + 2 * kv;
  if (shape->attention_bias_all)
    layer += h;
  if (shape->qk_norm)
    layer += 2 * shape->head_dim;
  if (shape->mlp_bias)
    layer += 2 * shape->intermediate + h;
  return shape->n_layers * layer + shape->vocabulary * h * (shape->tied_embeddings ? 1 : 2) + h;
}

/* The architecture of ROOT, or NULL and an error. */
static const Architecture *
find_architecture (const ZsNode *root, ZsErrors *errors)
{
  const ZsNode *type = zs_node_get (root, "model_type"),
               *list = zs_node_get (root, "architectures");
  const ZsNode *class =
      list != NULL && list->kind == ZS_NODE_SEQUENCE && list->n_items > 0 ? list->items[0] : NULL;
  const char *words[G_N_ELEMENTS (ARCHITECTURES) + 1] = { NULL };

  if (type != NULL && type->kind != ZS_NODE_SCALAR) {
    zs_node_fail (type, errors, "'model_type' must be a word");
    return NULL;
  }
  if (class != NULL && class->kind != ZS_NODE_SCALAR)
    class = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (ARCHITECTURES); i++) {
    words[i] = ARCHITECTURES[i].type;
    if (type != NULL ? strcmp (type->text, ARCHITECTURES[i].type) == 0
                     : class != NULL && strcmp (class->text, ARCHITECTURES[i].architecture) == 0)
      return &ARCHITECTURES[i];
  }
  if (type == NULL && class == NULL)
    return &ARCHITECTURES[0];

  const ZsNode *node = type != NULL ? type : class;

  for (size_t i = 0; i < G_N_ELEMENTS (REFUSED); i++)
    if (strcmp (node->text, REFUSED[i].type) == 0) {
      zs_node_fail (node, errors, "models of type '%s' are not simulated: %s", node->text,
                    REFUSED[i].why);
      return NULL;
    }

  g_autofree char *known = zs_schema_word_list (words);
  g_autofree char *hint = zs_nearest_hint (node->text, words);

  zs_node_fail (node, errors,
                "models of type '%.60s' are not simulated; the dense LLaMA-like ones are: "
                "%s%s",
                node->text, known, hint);
  return NULL;
}

static bool
read_dtype (const ZsNode *node, const char *text, ZsDtype *ret_dtype, ZsErrors *errors)
{
  static const struct {
    const char *name;
    ZsDtype dtype;
  } names[] = {
    { "bfloat16", ZS_DTYPE_BF16 }, { "bf16", ZS_DTYPE_BF16 },  { "float16", ZS_DTYPE_FP16 },
    { "fp16", ZS_DTYPE_FP16 },     { "half", ZS_DTYPE_FP16 },  { "float32", ZS_DTYPE_FP32 },
    { "fp32", ZS_DTYPE_FP32 },     { "float", ZS_DTYPE_FP32 },
  };

  if (g_str_has_prefix (text, "torch."))
    text += 6;
  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (text, names[i].name) == 0) {
      *ret_dtype = names[i].dtype;
      return true;
    }
  return zs_node_fail (node, errors, "the dtype must be bfloat16, float16 or float32, not '%.40s'",
                       text);
}

/* What the file asks for and the simulator does not do. */
static void
note_unmodelled (const ZsNode *root, const Values *values, const Architecture *architecture,
                 ZsNotes *notes)
{
  const ZsNode *activation = zs_node_get (root, "hidden_act");
  const ZsNode *quantization = zs_node_get (root, "quantization_config");
  const ZsNode *dropout = zs_node_get (root, "attention_dropout");
  const ZsNode *classes = zs_node_get (root, "architectures");
  const ZsNode *class = classes != NULL && classes->n_items > 0 ? classes->items[0] : NULL;
  double fraction = 0;

  if (class != NULL && class->kind == ZS_NODE_SCALAR && !g_str_has_suffix (class->text, "ForCausalLM"))
    zs_notes_add (notes, ZS_NOTE_RISKY, "model-class", class,
                  "%.60s is simulated with the head and the loss of a language model, which hold more", class->text);
  if (activation != NULL && activation->kind == ZS_NODE_SCALAR
      && strcmp (activation->text, "silu") != 0)
    zs_notes_add (notes, ZS_NOTE_INFO, "activation", activation,
                  "hidden_act %s is simulated as silu: the same bytes, nearly the same time",
                  activation->text);
  if (quantization != NULL && !zs_node_is_null (quantization))
    zs_notes_add (notes, ZS_NOTE_RISKY, "quantized-model", quantization,
                  "quantization_config is not read; say load_in_4bit in the scenario");
  if (zs_node_number (dropout, &fraction) && fraction > 0)
    zs_notes_add (notes, ZS_NOTE_INFO, "attention-dropout", dropout,
                  "attention_dropout is simulated as 0");
  if (values->sliding_window > 0
      && (values->use_sliding_window || architecture->family == FAMILY_MISTRAL))
    zs_notes_add (notes, ZS_NOTE_INFO, "sliding-window", zs_node_get (root, "sliding_window"),
                  "longer sequences than the sliding window of %" G_GINT64_FORMAT
                  " tokens get a mask; the time of attention is that of the whole sequence",
                  values->sliding_window);
}

bool
zs_hf_config_read (const ZsNode *root, const char *name, ZsHfConfig *ret_config, ZsNotes *notes,
                   ZsErrors *errors)
{
  ZsHfConfig config = { .dtype = ZS_DTYPE_FP32 };
  Values values = { .max_position = 2048 };
  bool ok = true;

  if (root->kind != ZS_NODE_MAPPING)
    return zs_node_fail (root, errors, "a model's config must be a mapping, not %s",
                         zs_node_describe (root));

  if (zs_node_get (root, "weight_map") != NULL)
    return zs_node_fail (root, errors, "this is the index of a model's weights: its config.json lies beside it");

  const ZsNode *text_config = zs_node_get (root, "text_config");
  const Architecture *architecture = find_architecture (root, errors);

  if (architecture == NULL)
    return false;
  if (text_config != NULL)
    return zs_node_fail (text_config, errors,
                         "models with a text_config (images, sound) are not simulated");
  if (zs_node_get (root, "num_local_experts") != NULL || zs_node_get (root, "num_experts") != NULL)
    return zs_node_fail (root, errors, "mixtures of experts are not simulated");
  /* Mistral's and Qwen's classes tie nothing by default, LLaMA's neither (tie_word_embeddings
   * False) */
  for (size_t i = 0; i < G_N_ELEMENTS (FIELDS); i++) {
    const ZsNode *node = zs_node_get (root, FIELDS[i].key);

    if (node != NULL && !zs_node_is_null (node))
      ok &= zs_schema_read_field (node, &FIELDS[i], &values, errors);
    else if (FIELDS[i].required)
      ok = zs_node_fail (root, errors, "the model's config needs '%s'", FIELDS[i].key);
  }
  if (!ok)
    return false;
  if (values.n_kv_heads == 0) {
    const ZsNode *given = zs_node_get (root, "num_key_value_heads");

    /* "null" means as many as heads in all of them */
    values.n_kv_heads = architecture->n_kv_heads > 0 && given == NULL
                            ? MIN (architecture->n_kv_heads, values.n_heads)
                            : values.n_heads;
  }
  if (values.head_dim == 0) {
    values.head_dim = architecture->head_dim;
    if (values.head_dim == 0 && values.hidden % values.n_heads != 0)
      return zs_node_fail (zs_node_get (root, "hidden_size"), errors,
                           "hidden_size %" G_GINT64_FORMAT
                           " is no multiple of num_attention_heads %" G_GINT64_FORMAT,
                           values.hidden, values.n_heads);
    if (values.head_dim == 0)
      values.head_dim = values.hidden / values.n_heads;
  }
  if (values.n_heads % values.n_kv_heads != 0) {
    const ZsNode *node = zs_node_get (root, "num_key_value_heads");

    return zs_node_fail (node != NULL ? node : root, errors,
                         "num_attention_heads %" G_GINT64_FORMAT " is no multiple of "
                         "num_key_value_heads %" G_GINT64_FORMAT,
                         values.n_heads, values.n_kv_heads);
  }
  if (values.dtype != NULL) {
    const ZsNode *node = zs_node_get (root, "torch_dtype");

    if (node == NULL || zs_node_is_null (node))
      node = zs_node_get (root, "dtype");
    config.has_dtype = read_dtype (node, values.dtype, &config.dtype, errors);
    if (!config.has_dtype)
      return false;
  }

  ZsModelShape *shape = &config.shape;
  const ZsNode *own_name = zs_node_get (root, "name");

  *shape = (ZsModelShape){
    .hidden = values.hidden,
    .intermediate = values.intermediate,
    .n_layers = values.n_layers,
    .n_heads = values.n_heads,
    .n_kv_heads = values.n_kv_heads,
    .head_dim = values.head_dim,
    .vocabulary = values.vocabulary,
    .max_position = values.max_position,
    .tied_embeddings = values.tied,
    .qkv_bias = architecture->family == FAMILY_QWEN2 || values.qkv_bias,
    .qk_norm = architecture->family == FAMILY_QWEN3,
    /* MistralAttention has no biases whatever the file says; Qwen2's are fixed */
    .attention_bias_all =
        values.attention_bias
        && (architecture->family == FAMILY_LLAMA || architecture->family == FAMILY_QWEN3),
    .mlp_bias = values.mlp_bias && architecture->family == FAMILY_LLAMA,
  };
  g_strlcpy (shape->name,
             own_name != NULL && own_name->kind == ZS_NODE_SCALAR ? own_name->text : name,
             sizeof shape->name);
  config.sliding_window = values.sliding_window;
  if (values.use_sliding_window || architecture->family == FAMILY_MISTRAL)
    shape->sliding_window = values.sliding_window;
  config.n_parameters = zs_shape_parameters (shape);
  note_unmodelled (root, &values, architecture, notes);
  *ret_config = config;
  return true;
}
