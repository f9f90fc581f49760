/* controls.c: the settings of the live page.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/web/controls.h"

#include <stdlib.h>
#include <string.h>

#define ZERO "training.deepspeed.zero_optimization."

typedef enum { MENU, SLIDER } Kind;

typedef char *(*Get) (const ZsScenario *scenario);

typedef struct {
  const char *name, *label, *path;
  Kind        kind;
  bool        deepspeed;         /* only with DeepSpeed */
  int         catalogue;         /* ZsCatalogueKind + 1 whose names are values; 0 none */
  const char *values;            /* others, separated by blanks */
  Get         get;               /* the scenario's own value */
  const char *help;
} Control;

static char *
number (int64_t value)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT, value);
}

static const char *const DEVICES[] = { "none", "cpu", "nvme" };

#define GETTER(name, expression) \
  static char *get_##name (const ZsScenario *s) { return expression; }

GETTER (model, g_strdup (s->model_name))
GETTER (gpu, g_strdup (s->cluster.gpu.name))
GETTER (gpus, number (s->cluster.gpus_per_node))
GETTER (nodes, number (s->cluster.n_nodes))
GETTER (fabric, g_strdup (s->cluster.fabric))
GETTER (stage, number (s->training.zero.stage))
GETTER (offload_optimizer, g_strdup (DEVICES[s->training.zero.offload_optimizer]))
GETTER (offload_param, g_strdup (DEVICES[s->training.zero.offload_param]))
GETTER (bucket, number (s->training.zero.reduce_bucket_size))
GETTER (prefetch, number (s->training.zero.prefetch_bucket_size))
GETTER (live, number (s->training.zero.max_live_parameters))
GETTER (overlap, g_strdup (s->training.zero.overlap_comm ? "true" : "false"))
GETTER (checkpointing, s->training.step.checkpoint_every == 0 ? g_strdup ("none") : g_strdup ("full"))
GETTER (micro_batch, number (s->training.step.micro_batch))
GETTER (sequence, number (s->training.step.sequence))
GETTER (accumulation, number (s->training.gradient_accumulation))

#define SIZES "100000 1000000 2000000 5000000 10000000 20000000 50000000 100000000 200000000 500000000 1000000000"

static const Control CONTROLS[] = {
  { "model", "model", "model", MENU, false, ZS_CATALOGUE_MODELS + 1, "", get_model, "" },
  { "stage", "ZeRO stage", ZERO "stage", MENU, true, 0, "0 1 2 3", get_stage,
    "what is cut: 1 optimizer, 2 gradients too, 3 parameters too" },
  { "offload_optimizer", "optimizer in", ZERO "offload_optimizer.device", MENU, true, 0, "none cpu nvme",
    get_offload_optimizer, "none: GPU memory" },
  { "offload_param", "parameters in", ZERO "offload_param.device", MENU, true, 0, "none cpu nvme",
    get_offload_param, "with stage 3" },
  { "bucket", "reduce bucket", ZERO "reduce_bucket_size", SLIDER, true, 0, SIZES, get_bucket, "elements" },
  { "prefetch", "prefetch bucket", ZERO "stage3_prefetch_bucket_size", SLIDER, true, 0, "0 " SIZES,
    get_prefetch, "elements, with stage 3" },
  { "live", "live parameters", ZERO "stage3_max_live_parameters", SLIDER, true, 0, "0 " SIZES, get_live,
    "elements that may be gathered at once, with stage 3" },
  { "overlap", "overlap_comm", ZERO "overlap_comm", MENU, true, 0, "true false", get_overlap, "" },
  { "checkpointing", "activation checkpointing", "training.checkpointing", MENU, false, 0, "none full",
    get_checkpointing, "" },
  { "micro_batch", "micro-batch", "training.micro_batch", SLIDER, false, 0, "1 2 3 4 6 8 12 16 24 32",
    get_micro_batch, "sequences per GPU and micro-step" },
  { "sequence", "sequence", "training.sequence_length", SLIDER, false, 0, "256 512 1024 2048 4096 8192 16384",
    get_sequence, "tokens" },
  { "accumulation", "accumulation", "training.gradient_accumulation", SLIDER, false, 0, "1 2 4 8 16",
    get_accumulation, "micro-steps per step" },
  { "gpu", "GPU", "cluster.gpu", MENU, false, ZS_CATALOGUE_GPUS + 1, "", get_gpu, "" },
  { "gpus", "GPUs per node", "cluster.gpus_per_node", SLIDER, false, 0, "1 2 4 8", get_gpus, "" },
  { "nodes", "nodes", "cluster.nodes", SLIDER, false, 0, "1 2 4 8 16", get_nodes, "" },
  { "fabric", "fabric", "cluster.fabric", MENU, false, ZS_CATALOGUE_FABRICS + 1, "pcie nvlink nvswitch",
    get_fabric, "links between the GPUs of a node" },
};

typedef struct {
  bool       shown;
  char      *own;                /* the scenario's value */
  GPtrArray *values;             /* of char * */
} Row;

struct ZsControls {
  Row rows[G_N_ELEMENTS (CONTROLS)];
};

static bool
has_value (const Row *row, const char *value)
{
  for (guint v = 0; v < row->values->len; v++)
    if (strcmp (row->values->pdata[v], value) == 0)
      return true;
  return false;
}

static int
by_number (gconstpointer a, gconstpointer b)
{
  int64_t x = g_ascii_strtoll (*(const char *const *) a, NULL, 10);
  int64_t y = g_ascii_strtoll (*(const char *const *) b, NULL, 10);

  return x < y ? -1 : x > y;
}

ZsControls *
zs_controls_new (const ZsScenario *scenario, ZsCatalogue *catalogue)
{
  ZsControls *controls = g_new0 (ZsControls, 1);
  bool deepspeed = scenario->training.framework == ZS_FRAMEWORK_DEEPSPEED;

  for (size_t c = 0; c < G_N_ELEMENTS (CONTROLS); c++) {
    const Control *control = &CONTROLS[c];
    Row *row = &controls->rows[c];
    g_auto (GStrv) values = g_strsplit (control->values, " ", -1);

    row->shown = deepspeed || !control->deepspeed;
    row->values = g_ptr_array_new_with_free_func (g_free);
    row->own = control->get (scenario);
    if (row->own == NULL)
      row->own = g_strdup ("");
    for (char **value = values; *value != NULL; value++)
      if (**value != '\0')
        g_ptr_array_add (row->values, g_strdup (*value));
    if (control->catalogue > 0) {
      int n;
      const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, control->catalogue - 1, &n);

      for (int e = 0; e < n; e++)
        g_ptr_array_add (row->values, g_strdup (entries[e].name));
    }
    if (!has_value (row, row->own))
      g_ptr_array_add (row->values, g_strdup (row->own));
    if (control->kind == SLIDER)
      g_ptr_array_sort (row->values, by_number);
  }
  return controls;
}

void
zs_controls_free (ZsControls *controls)
{
  if (controls == NULL)
    return;
  for (size_t c = 0; c < G_N_ELEMENTS (CONTROLS); c++) {
    g_free (controls->rows[c].own);
    g_ptr_array_unref (controls->rows[c].values);
  }
  g_free (controls);
}

char *
zs_controls_set (const ZsControls *controls, const char *name, const char *value)
{
  for (size_t c = 0; c < G_N_ELEMENTS (CONTROLS); c++) {
    const Row *row = &controls->rows[c];

    if (strcmp (CONTROLS[c].name, name) == 0 && row->shown && has_value (row, value))
      return g_strdup_printf ("%s=%s", CONTROLS[c].path, value);
  }
  return NULL;
}

void
zs_controls_write (const ZsControls *controls, const char *key, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, key);
  for (size_t c = 0; c < G_N_ELEMENTS (CONTROLS); c++) {
    const Row *row = &controls->rows[c];

    if (!row->shown)
      continue;
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "name", CONTROLS[c].name);
    zs_json_string (writer, "label", CONTROLS[c].label);
    zs_json_string (writer, "kind", CONTROLS[c].kind == SLIDER ? "slider" : "menu");
    zs_json_string (writer, "help", CONTROLS[c].help);
    zs_json_string (writer, "value", row->own);
    zs_json_begin_array (writer, "values");
    for (guint v = 0; v < row->values->len; v++)
      zs_json_string (writer, NULL, row->values->pdata[v]);
    zs_json_end_array (writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}
