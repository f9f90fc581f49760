/* gpu.c: files of models/gpus/.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/hardware/gpu.h"

#include <string.h>

#include "sim/io/schema.h"

/* A row, and where the origin of the number goes (if the struct keeps it). */
typedef struct {
  ZsField field;
  bool keeps_origin;
  size_t origin_offset;
} GpuField;

#define ORIGIN(member) .keeps_origin = true, .origin_offset = offsetof (ZsGpu, member)
#define TERA 1e12

static const GpuField FIELDS[] = {
  { .field = { ZS_FIELD ("name", TEXT, ZsGpu, name), .size = sizeof ((ZsGpu *)0)->name,
               .required = true } },
  { .field = { ZS_FIELD ("sm_count", INT32, ZsGpu, sm_count), .min = 1, .max = 1000,
               .required = true, .help = "streaming multiprocessors" } },
  { .field = { ZS_FIELD ("memory", BYTES, ZsGpu, memory_bytes), .min = 1 << 30,
               .max = INT64_C (1) << 42, .required = true,
               .help = "what torch reports as total_memory" } },
  { .field = { ZS_FIELD ("memory_rate", RATE, ZsGpu, memory_rate), .min = 1000000000,
               .max = INT64_C (100000000000000), .required = true } },
  { .field = { ZS_FIELD ("l2", BYTES, ZsGpu, l2_bytes), .max = INT64_C (1) << 32 } },
  { .field = { ZS_FIELD ("fp32_tflops", NUMBER, ZsGpu, fp32_flops), .high = 1e5,
               .required = true } },
  { .field = { ZS_FIELD ("tf32_tflops", NUMBER, ZsGpu, tf32_flops), .high = 1e5 } },
  { .field = { ZS_FIELD ("fp16_tflops", NUMBER, ZsGpu, fp16_flops), .high = 1e5,
               .required = true } },
  { .field = { ZS_FIELD ("bf16_tflops", NUMBER, ZsGpu, bf16_flops), .high = 1e5, .required = true,
               .help = "0: not in hardware" } },
  { .field = { ZS_FIELD ("p2p_over_pcie", BOOL, ZsGpu, p2p_over_pcie), .required = true } },
  { .field = { ZS_FIELD ("context", BYTES, ZsGpu, context_bytes), .max = INT64_C (1) << 34,
               .required = true },
    ORIGIN (context_origin) },
  { .field = { ZS_FIELD ("matmul_efficiency", NUMBER, ZsGpu, matmul_efficiency), .low = 0.01,
               .high = 1.5, .required = true },
    ORIGIN (matmul_origin) },
  { .field = { ZS_FIELD ("matmul_full_clock", NUMBER, ZsGpu, matmul_full_clock), .low = 0.01,
               .high = 1 } },
  { .field = { ZS_FIELD ("memory_efficiency", NUMBER, ZsGpu, memory_efficiency), .low = 0.01,
               .high = 1, .required = true },
    ORIGIN (memory_origin) },
  { .field = { ZS_FIELD ("expected_error", NUMBER, ZsGpu, expected_error), .high = 1,
               .required = true } },
  { .field = { ZS_FIELD ("pinned_copy_rate", RATE, ZsGpu, pinned_copy_rate), .min = 1000000,
               .required = true } },
  { .field = { .key = "compute_capability", .type = ZS_FIELD_NODE } },
  { .field = { .key = "pcie", .type = ZS_FIELD_MAPPING, .required = true } },
  { .field = { .key = "nvlink", .type = ZS_FIELD_MAPPING } },
  { .field = { .key = "aliases", .type = ZS_FIELD_IGNORED } },
  { .field = { .key = "source", .type = ZS_FIELD_IGNORED } },
  { .field = { .key = "vendor", .type = ZS_FIELD_IGNORED } },
  { .field = { .key = "form", .type = ZS_FIELD_IGNORED } },
  { .field = { .key = "architecture", .type = ZS_FIELD_IGNORED } },
};

static const char *const ORIGINS[] = { "measured", "published", "assumed", NULL };

const char *
zs_origin_name (ZsOrigin origin)
{
  return ORIGINS[origin];
}

static bool
read_links (const ZsNode *root, ZsGpu *gpu, ZsErrors *errors)
{
  static const ZsField pcie[] = {
    { ZS_FIELD ("generation", INT32, ZsGpu, pcie_generation), .min = 1, .max = 7,
      .required = true },
    { ZS_FIELD ("width", INT32, ZsGpu, pcie_width), .min = 1, .max = 32, .required = true },
  };
  static const ZsField nvlink[] = {
    { ZS_FIELD ("generation", INT32, ZsGpu, nvlink_generation), .min = 1, .max = 9,
      .required = true },
    { ZS_FIELD ("links", INT32, ZsGpu, nvlink_links), .min = 1, .max = 64, .required = true },
  };
  const ZsNode *node = zs_node_get (root, "pcie");
  bool ok = true;

  if (node != NULL)
    ok = zs_schema_read (node, "pcie", pcie, G_N_ELEMENTS (pcie), gpu, NULL, errors);
  node = zs_node_get (root, "nvlink");
  if (node != NULL)
    ok &= zs_schema_read (node, "nvlink", nvlink, G_N_ELEMENTS (nvlink), gpu, NULL, errors);
  return ok;
}

/* "8.0" is 80 and "12.0" is 120. */
static bool
read_capability (const ZsNode *node, int *ret_capability, ZsErrors *errors)
{
  const char *text = node->kind == ZS_NODE_SCALAR ? node->text : "";
  char *end;
  guint64 major = g_ascii_strtoull (text, &end, 10);

  if (!g_ascii_isdigit (text[0]) || major > 99 || *end != '.' || !g_ascii_isdigit (end[1])
      || end[2] != '\0')
    return zs_node_fail (node, errors, "'compute_capability' must be as 8.0 or 12.0, not '%.20s'",
                         text);
  *ret_capability = (int)major * 10 + (end[1] - '0');
  return true;
}

static bool
read_field (const GpuField *row, const ZsNode *node, ZsGpu *gpu, ZsErrors *errors)
{
  static const ZsField origin_field = { .key = "origin", .type = ZS_FIELD_WORD, .words = ORIGINS };
  int origin = ZS_ORIGIN_PUBLISHED;

  if (row->field.type == ZS_FIELD_IGNORED || row->field.type == ZS_FIELD_MAPPING)
    return true;
  if (node->kind == ZS_NODE_MAPPING) {
    const ZsNode *value = zs_node_get (node, "value"), *origin_node = zs_node_get (node, "origin");

    if (value == NULL || origin_node == NULL || zs_node_get (node, "source") == NULL)
      return zs_node_fail (node, errors, "'%s' must be a value or {value, origin, source}",
                           row->field.key);
    if (!zs_schema_read_field (origin_node, &origin_field, &origin, errors))
      return false;
    node = value;
  }
  if (row->keeps_origin)
    *(ZsOrigin *)((char *)gpu + row->origin_offset) = (ZsOrigin)origin;
  if (strcmp (row->field.key, "compute_capability") == 0)
    return read_capability (node, &gpu->compute_capability, errors);
  return zs_schema_read_field (node, &row->field, gpu, errors);
}

bool
zs_gpu_read (const ZsNode *root, ZsGpu *ret_gpu, ZsErrors *errors)
{
  ZsGpu gpu = { 0 };
  bool ok = true;

  if (root->kind != ZS_NODE_MAPPING)
    return zs_node_fail (root, errors, "a GPU must be a mapping (key: value)");
  for (int k = 0; k < root->n_items; k++) {
    const GpuField *row = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS (FIELDS) && row == NULL; i++)
      if (strcmp (FIELDS[i].field.key, root->keys[k]->text) == 0)
        row = &FIELDS[i];
    if (row != NULL) {
      ok &= read_field (row, root->items[k], &gpu, errors);
    } else {
      const char *words[G_N_ELEMENTS (FIELDS) + 1] = { NULL };

      for (size_t i = 0; i < G_N_ELEMENTS (FIELDS); i++)
        words[i] = FIELDS[i].field.key;
      ok = zs_schema_unknown_key (root->keys[k], "a GPU", words, errors);
    }
  }
  for (size_t i = 0; i < G_N_ELEMENTS (FIELDS); i++)
    if (FIELDS[i].field.required && zs_node_get (root, FIELDS[i].field.key) == NULL)
      ok = zs_node_fail (root, errors, "a GPU needs '%s'", FIELDS[i].field.key);
  ok &= read_links (root, &gpu, errors);
  if (!ok)
    return false;
  gpu.fp32_flops *= TERA;
  gpu.tf32_flops *= TERA;
  gpu.fp16_flops *= TERA;
  gpu.bf16_flops *= TERA;
  *ret_gpu = gpu;
  return true;
}
