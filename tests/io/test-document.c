/* test-document.c: YAML and JSON as trees with places; field tables.  SPDX-License-Identifier: MIT
 */
#include <glib.h>
#include <string.h>

#include "sim/base/time.h"
#include "sim/io/document.h"
#include "sim/io/schema.h"
#include "tests/testing.h"

static ZsDocument *
yaml (const char *text)
{
  g_autoptr (GError) error = NULL;
  ZsDocument *document = zs_yaml_parse ("a.yaml", text, strlen (text), &error);

  if (document == NULL)
    g_printerr ("# %s\n", error->message);
  CU_ASSERT_PTR_NOT_NULL_FATAL (document);
  return document;
}

static void
values_know_their_place (void)
{
  g_autoptr (ZsDocument) document =
      yaml ("name: x\ncluster:\n  gpu: a100 # comment\n  list: [1, 'two']\n");
  const ZsNode *cluster = zs_node_get (zs_document_root (document), "cluster");
  const ZsNode *gpu = zs_node_get (cluster, "gpu");
  const ZsNode *list = zs_node_get (cluster, "list");

  CU_ASSERT_PTR_NOT_NULL_FATAL (gpu);
  CU_ASSERT_STRING_EQUAL (gpu->text, "a100");
  CU_ASSERT_EQUAL (gpu->line, 3);
  CU_ASSERT_EQUAL (gpu->column, 8);
  CU_ASSERT_EQUAL (zs_node_get_key (cluster, "gpu")->column, 3);
  CU_ASSERT_EQUAL (list->n_items, 2);
  CU_ASSERT_TRUE (list->items[1]->quoted);
  g_autofree char *where = zs_node_where (list->items[1]);
  CU_ASSERT_STRING_EQUAL (where, "a.yaml:4:13");
}

static void
json_is_strict_and_has_places (void)
{
  static const char good[] =
      "{\"a\":1e9,\t\"b\":[true,null,\"x\\u00e9\\/\\n\"],\r\n \"c\":{\"d\":-2.5}}";
  static const char *const bad[] = { "{a: 1}",      "{\"a\": 1,}", "{\"a\": NaN}",
                                     "{\"a\": 01}", "[1 2]",       "{\"a\": 1} x",
                                     "{'a': 1}",    "// c\n{}",    "{\"a\": 1e999}" };
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsDocument) document = zs_json_parse ("a.json", good, strlen (good), &error);
  int64_t integer = 0;
  double number = 0;

  CU_ASSERT_PTR_NOT_NULL_FATAL (document);
  const ZsNode *root = zs_document_root (document);
  CU_ASSERT_TRUE (zs_node_int (zs_node_get (root, "a"), &integer));
  CU_ASSERT_EQUAL (integer, 1000000000);
  CU_ASSERT_TRUE (zs_node_number (zs_node_get (zs_node_get (root, "c"), "d"), &number));
  CU_ASSERT_EQUAL (number, -2.5);
  CU_ASSERT_EQUAL (zs_node_get (root, "c")->line, 2);
  CU_ASSERT_STRING_EQUAL (zs_node_get (root, "b")->items[2]->text, "x\xc3\xa9/\n");
  CU_ASSERT_TRUE (zs_node_is_null (zs_node_get (root, "b")->items[1]));
  static const char smile[] = "{\"a\": \"\\\\ud83d \\ud83d\\ude00\"}";
  g_autoptr (ZsDocument) emoji = zs_json_parse ("a.json", smile, strlen (smile), &error);
  CU_ASSERT_PTR_NOT_NULL_FATAL (emoji);
  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_document_root (emoji), "a")->text,
                          "\\ud83d \xf0\x9f\x98\x80");
  for (size_t i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) problem = NULL;

    CU_ASSERT_PTR_NULL (zs_json_parse ("a.json", bad[i], strlen (bad[i]), &problem));
    CU_ASSERT_TRUE (problem != NULL && g_str_has_prefix (problem->message, "a.json:"));
  }
}

static void
aliases_and_merge_keys_are_copied (void)
{
  g_autoptr (ZsDocument) document =
      yaml ("base: &b {x: 1, y: [2]}\none:\n  <<: *b\n  x: 3\ntwo: *b\n");
  const ZsNode *root = zs_document_root (document);

  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_node_get (root, "one"), "x")->text, "3");
  CU_ASSERT_EQUAL (zs_node_get (zs_node_get (root, "one"), "y")->n_items, 1);
  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_node_get (root, "two"), "x")->text, "1");
  CU_ASSERT_PTR_NOT_EQUAL (zs_node_get (root, "two"), zs_node_get (root, "base"));
}

static void
large_mappings_find_their_keys (void)
{
  GString *text = g_string_new (NULL);

  for (int i = 0; i < 60000; i++)
    g_string_append_printf (text, "k%d: %d\n", i, i);
  g_autoptr (ZsDocument) document = yaml (text->str);
  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_document_root (document), "k59999")->text, "59999");
  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_document_root (document), "k3")->text, "3");
  CU_ASSERT_PTR_NULL (zs_node_get (zs_document_root (document), "k60000"));
  g_string_free (text, TRUE);
}

typedef struct {
  int n_gpus;
  int64_t memory, count;
  ZsRate rate;
  bool on;
  double share;
  int word;
} Machine;

static const char *const WORDS[] = { "ring", "tree", NULL };
static const ZsField FIELDS[] = {
  { ZS_FIELD ("gpus", INT32, Machine, n_gpus), .min = 1, .max = 16, .required = true,
    .help = "GPUs of a node" },
  { ZS_FIELD ("memory", BYTES, Machine, memory), .min = 1 },
  { ZS_FIELD ("count", INT, Machine, count) },
  { ZS_FIELD ("rate", RATE, Machine, rate), .min = 1 },
  { ZS_FIELD ("on", BOOL, Machine, on) },
  { ZS_FIELD ("share", NUMBER, Machine, share), .high = 1 },
  { ZS_FIELD ("algorithm", WORD, Machine, word), .words = WORDS },
};

static void
field_tables_fill_structs (void)
{
  g_autoptr (ZsDocument) document = yaml (
      "{gpus: 8, memory: 2 TiB, count: 5e8, rate: 25 GB/s, on: true, share: 0.5, algorithm: tree}");
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  Machine machine = { 0 };
  const ZsNode *given[G_N_ELEMENTS (FIELDS)];

  CU_ASSERT_TRUE (zs_schema_read (zs_document_root (document), "machine", FIELDS,
                                  G_N_ELEMENTS (FIELDS), &machine, given, errors));
  CU_ASSERT_EQUAL (machine.n_gpus, 8);
  CU_ASSERT_EQUAL (machine.memory, INT64_C (2) << 40);
  CU_ASSERT_EQUAL (machine.count, 500000000);
  CU_ASSERT_EQUAL (machine.rate, INT64_C (25000000000));
  CU_ASSERT_TRUE (machine.on);
  CU_ASSERT_EQUAL (machine.share, 0.5);
  CU_ASSERT_EQUAL (machine.word, 1);
  CU_ASSERT_PTR_NOT_NULL (given[0]);
}

static void
all_mistakes_are_told_with_their_place (void)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    { "gpus: 17", "a.yaml:1:7: 'gpus' must be 1 to 16, not '17'" },
    { "gpus: eight", "a.yaml:1:7: 'gpus' must be a whole number, not 'eight'" },
    { "gpus: 8\nmemroy: 1 GB",
      "a.yaml:2:1: unknown key 'memroy' in machine; did you mean 'memory'?" },
    { "gpus: 8\nmemory: 80",
      "a.yaml:2:9: 'memory': a size needs its unit, such as 80 GiB, not '80'" },
    { "gpus: 8\non: 'true'", "a.yaml:2:5: 'on' must be true or false, not the string \"true\"" },
    { "gpus: 8\nalgorithm: rings",
      "a.yaml:2:12: 'algorithm' must be ring or tree, not 'rings'; did you mean 'ring'?" },
    { "gpus: [8]", "a.yaml:1:7: 'gpus' must be one value, not a list" },
    { "on: false", "a.yaml:1:1: machine needs 'gpus' (GPUs of a node)" },
    { "gpus: 8\nshare: 1.5", "a.yaml:2:8: 'share' must be 0 to 1, not '1.5'" },
    { "gpus: 8\ncount: -1", "a.yaml:2:8: 'count' must be at least 0, not '-1'" },
    { "[1]", "a.yaml:1:1: machine must be a mapping (key: value), not a list" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (ZsDocument) document = yaml (cases[i].text);
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    Machine machine = { 0 };

    CU_ASSERT_FALSE (zs_schema_read (zs_document_root (document), "machine", FIELDS,
                                     G_N_ELEMENTS (FIELDS), &machine, NULL, errors));
    CU_ASSERT_EQUAL_FATAL (zs_errors_count (errors), 1);
    if (strcmp (zs_errors_get (errors, 0)->message, cases[i].message) != 0)
      g_printerr ("# %s\n", zs_errors_get (errors, 0)->message);
    CU_ASSERT_STRING_EQUAL (zs_errors_get (errors, 0)->message, cases[i].message);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "values know their place", values_know_their_place },
    { "JSON is strict and has places", json_is_strict_and_has_places },
    { "aliases and merge keys are copied", aliases_and_merge_keys_are_copied },
    { "large mappings find their keys", large_mappings_find_their_keys },
    { "field tables fill structs", field_tables_fill_structs },
    { "all mistakes are told with their place", all_mistakes_are_told_with_their_place },
    CU_TEST_INFO_NULL
  };

  return testing_main ("document", tests);
}
