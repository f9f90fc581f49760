/* HJSON as DeepSpeed reads it.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/io/hjson.h"
#include "tests/testing.h"

static ZsDocument *
parse (const char *text, GArray *remarks)
{
  g_autoptr (GError) error = NULL;
  ZsDocument *document = zs_hjson_parse ("f.json", text, strlen (text), remarks, &error);

  if (document == NULL)
    g_printerr ("# %s: %s\n", text, error->message);
  return document;
}

static void
a_value_has_its_place_and_text (void)
{
  g_autoptr (ZsDocument) document =
      parse ("{\n  \"zero\": {\n    \"stage\": 3, \"b\": 5e8\n  }\n}", NULL);
  ZsNode *zero = zs_node_get (zs_document_root (document), "zero");
  ZsNode *stage = zs_node_get (zero, "stage"), *key = zs_node_get_key (zero, "b");
  int64_t value = 0;

  CU_ASSERT_EQUAL (stage->line, 3);
  CU_ASSERT_EQUAL (stage->column, 14);
  CU_ASSERT_STRING_EQUAL (stage->text, "3");
  CU_ASSERT_EQUAL (key->line, 3);
  CU_ASSERT_EQUAL (key->column, 17);
  CU_ASSERT_TRUE (zs_node_int (zs_node_get (zero, "b"), &value));
  CU_ASSERT_EQUAL (value, 500000000);
}

static void
columns_count_characters (void)
{
  g_autoptr (ZsDocument) document = parse ("{\"größe\": 1, \"x\": 2}", NULL);

  CU_ASSERT_EQUAL (zs_node_get_key (zs_document_root (document), "x")->column, 14);
}

static void
what_hjson_allows_is_read (void)
{
  static const struct {
    const char *text, *key, *value;
    bool quoted;
  } cases[] = {
    { "# c\n{\"a\": 1 // d\n}", "a", "1", false },
    { "{\"a\": /* x */ 2}", "a", "2", false },
    { "{\"a\": 3,}", "a", "3", false },
    { "{\"b\": 1\n \"a\": 4}", "a", "4", false },
    { "{\"b\": \"x\" \"a\": 4}", "a", "4", false },
    { "{a: 5}", "a", "5", false },
    { "a: 6\nb: 7\n", "a", "6", false },
    { "{'a': 'it'}", "a", "it", true },
    { "{a: True,\n b: 1}", "a", "True,", true }, /* the whole rest of the line */
    { "{a: true,\n b: 1}", "a", "true", false },
    { "{a: None\n}", "a", "None", true },
    { "{a: cpu\n}", "a", "cpu", true },
    { "{a: 5 # five\n}", "a", "5", false },
    { "{a: x # y\n}", "a", "x # y", true }, /* no comment after bare text */
    { "{a: 1.5e-3}", "a", "1.5e-3", false },
    { "{a: 01\n}", "a", "01", true }, /* no number */
    { "{a: -\n}", "a", "-", true },
    { "{a: NaN\n}", "a", "NaN", true },
    { "{a: null}", "a", "null", false },
    { "{a: \"null\"}", "a", "null", true },
    { "{a: \"\\u00e9\\n\\\"\\ud83d\\ude00\"}", "a", "é\n\"😀", true },
    { "{\n  a: '''\n  one\n    two\n  '''\n}", "a", "one\ntwo", true },
    { "\xef\xbb\xbf{a: 1}", "a", "1", false },
    { "{a: 1} // the end", "a", "1", false },
    { "{a: 1, /* open to the end", NULL, NULL, false },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    if (cases[i].key == NULL) {
      g_autoptr (GError) error = NULL;

      CU_ASSERT_PTR_NULL (
          zs_hjson_parse ("f", cases[i].text, strlen (cases[i].text), NULL, &error));
      continue;
    }
    g_autoptr (ZsDocument) document = parse (cases[i].text, NULL);
    ZsNode *node =
        document != NULL ? zs_node_get (zs_document_root (document), cases[i].key) : NULL;

    CU_ASSERT_PTR_NOT_NULL_FATAL (node);
    if (strcmp (node->text, cases[i].value) != 0 || node->quoted != cases[i].quoted)
      g_printerr ("# case %zu: '%s'\n", i, node->text);
    CU_ASSERT_STRING_EQUAL (node->text, cases[i].value);
    CU_ASSERT_EQUAL (node->quoted, cases[i].quoted);
  }
}

static void
what_strict_json_refuses_is_remarked (void)
{
  static const struct {
    const char *text;
    ZsHjsonRemarkKind kind;
    int line, column;
  } cases[] = {
    { "{\"a\": 1, // c\n\"b\": 2}", ZS_HJSON_COMMENT, 1, 10 },
    { "{\"a\": 1, # c\n\"b\": 2}", ZS_HJSON_COMMENT, 1, 10 },
    { "{\"a\": 1,\n}", ZS_HJSON_TRAILING_COMMA, 1, 8 },
    { "{\"a\": [1, 2, ]}", ZS_HJSON_TRAILING_COMMA, 1, 12 },
    { "{\"a\": 1\n\"b\": 2}", ZS_HJSON_MISSING_COMMA, 1, 8 },
    { "{a: 1}", ZS_HJSON_UNQUOTED_NAME, 1, 2 },
    { "{\"a\": cpu\n}", ZS_HJSON_UNQUOTED_STRING, 1, 7 },
    { "{\"a\": True,\n}", ZS_HJSON_PYTHON_LITERAL, 1, 7 },
    { "{\"a\": False\n}", ZS_HJSON_PYTHON_LITERAL, 1, 7 },
    { "{\"a\": 'x'}", ZS_HJSON_SINGLE_QUOTES, 1, 7 },
    { "{\"a\": '''x'''}", ZS_HJSON_MULTI_LINE, 1, 7 },
    { "\"a\": 1", ZS_HJSON_NO_BRACES, 1, 1 },
    { "\xef\xbb\xbf{}", ZS_HJSON_BYTE_ORDER_MARK, 1, 1 },
    { "{\"a\": 1,\n \"a\": 2}", ZS_HJSON_DUPLICATE, 2, 2 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));
    g_autoptr (ZsDocument) document = parse (cases[i].text, remarks);

    CU_ASSERT_PTR_NOT_NULL (document);
    CU_ASSERT_EQUAL_FATAL (remarks->len, 1);
    ZsHjsonRemark *remark = &g_array_index (remarks, ZsHjsonRemark, 0);

    if (remark->kind != cases[i].kind || remark->column != cases[i].column)
      g_printerr ("# case %zu: %s at %d:%d\n", i, zs_hjson_remark_name (remark->kind), remark->line,
                  remark->column);
    CU_ASSERT_EQUAL (remark->kind, cases[i].kind);
    CU_ASSERT_EQUAL (remark->line, cases[i].line);
    CU_ASSERT_EQUAL (remark->column, cases[i].column);
  }
}

static void
a_name_given_twice_is_an_error_or_a_remark (void)
{
  const char *text = "{\"a\": 1,\n \"a\": 2}";
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));

  CU_ASSERT_PTR_NULL (zs_hjson_parse ("f.json", text, strlen (text), NULL, &error));
  CU_ASSERT_TRUE (g_str_has_prefix (error->message, "f.json:2:2: 'a' is given twice"));
  g_autoptr (ZsDocument) document = parse (text, remarks);

  CU_ASSERT_STRING_EQUAL (zs_node_get (zs_document_root (document), "a")->text, "2");
  CU_ASSERT_EQUAL (g_array_index (remarks, ZsHjsonRemark, 0).first_line, 1);
}

static void
a_broken_text_gives_one_error_with_its_place (void)
{
  static const struct {
    const char *text, *start;
  } cases[] = {
    { "", "f.json:1:1: the file is empty" },
    { "   \n\n", "f.json:1:1: the file is empty" },
    { "// only this", "f.json:1:13: there is nothing but comments" },
    { "{", "f.json:1:2: the file ends, but the '{' at line 1 is not closed" },
    { "{\"a\": {\n\"b\": 1", "f.json:2:7: the file ends, but the '{' at line 1" },
    { "{\"a\": [1, 2", "f.json:1:12: the file ends, but the '[' at line 1" },
    { "{\"a\"", "f.json:1:5: ':' was expected after 'a', not the end of the file" },
    { "{\"a\":", "f.json:1:6: the file ends after 'a:'" },
    { "{\"a\" 1}", "f.json:1:6: ':' was expected after 'a', not '1}'" },
    { "{\"a\": \"x}", "f.json:1:7: this string has no closing \"" },
    { "{\"a\": '''x}", "f.json:1:7: this string has no closing '''" },
    { "{\"a\": 1}}", "f.json:1:9: the file goes on after its end: '}'" },
    { "{\"a\": 1} {}", "f.json:1:10: the file goes on" },
    { "{\"a\": ,}", "f.json:1:7: a value was expected here, not ',}'" },
    { "{, \"a\": 1}", "f.json:1:2: a name and ':' were expected here" },
    { "{\"a\": 1,, \"b\": 2}", "f.json:1:9: a name and ':' were expected here" },
    { "{: 1}", "f.json:1:2: there is no name before this ':'" },
    { "{a b: 1}", "f.json:1:2: a name with blanks in it needs quotes" },
    { "{\"a\": \"\\x\"}", "f.json:1:8: '\\x' is no escape" },
    { "{\"a\": \"\\u12g4\"}", "f.json:1:8: a \\u escape needs four" },
    { "{\"a\": \"\\u0000\"}", "f.json:1:8: a \\u escape needs four" },
    { "{\"a\": \"\\ud800\"}", "f.json:1:8: a \\u escape needs four" },
    { "{\"a\": \"\t\"}", "f.json:1:8: a string has a control character (0x09)" },
    { "{\"a\": True}", "f.json:1:12: the file ends, but the '{' at line 1 is not closed; the text "
                       "without quotes at line 1 takes the whole rest of its line" },
    { "{\"a\": \x01}", "f.json:1:7: byte 0x01 is not text" },
    { "{\"a\": \xff}", "f.json:1:7: byte 0xff is not text" },
    { "\xff\xfe{\x01", "f.json:1:1: this is UTF-16" },
    { "]", "f.json:1:1: a name and ':' were expected here" },
    { "[1, 2", "f.json:1:6: the file ends, but the '[' at line 1" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    CU_ASSERT_PTR_NULL (
        zs_hjson_parse ("f.json", cases[i].text, strlen (cases[i].text), NULL, &error));
    CU_ASSERT_PTR_NOT_NULL_FATAL (error);
    if (!g_str_has_prefix (error->message, cases[i].start))
      g_printerr ("# case %zu: %s\n", i, error->message);
    CU_ASSERT_TRUE (g_str_has_prefix (error->message, cases[i].start));
  }
}

static void
depth_and_size_are_limited (void)
{
  g_autoptr (GString) deep = g_string_new (NULL);
  g_autoptr (GString) wide = g_string_new ("{");
  g_autoptr (GError) error = NULL, error2 = NULL;

  for (int i = 0; i < 100000; i++)
    g_string_append_c (deep, '[');
  CU_ASSERT_PTR_NULL (zs_hjson_parse ("f", deep->str, deep->len, NULL, &error));
  CU_ASSERT_TRUE (g_str_has_prefix (error->message, "f:1:65: more than 64"));
  for (int i = 0; i < 20000; i++)
    g_string_append_printf (wide, "k%d:%d,", i, i);
  CU_ASSERT_PTR_NULL (zs_hjson_parse ("f", wide->str, wide->len, NULL, &error2));
  CU_ASSERT_PTR_NOT_NULL (strstr (error2->message, "more than 10000 names"));
}

/* Every truncation, and many mutations, of files that people have written: read or refused, and a
 * refusal has its place. */
static void
any_bytes_are_read_or_refused (void)
{
  static const char BYTES[] = "{}[]:,\"'#/*\\\n\r\t \0tfn-+.eE0189\xff\xc3\xa9";
  g_autofree char *folder = testing_source_path ("tests/data/ds-config");
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint64 seed = 0x9e3779b97f4a7c15u, state = seed;
  const char *name;
  int n_files = 0;

  CU_ASSERT_PTR_NOT_NULL_FATAL (dir);
  while ((name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *path = g_build_filename (folder, name, NULL), *text = NULL;
    gsize length;

    if (!g_file_get_contents (path, &text, &length, NULL))
      continue;
    n_files++;
    for (gsize cut = 0; cut <= length; cut++) {
      g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));
      g_autoptr (GError) error = NULL;
      g_autoptr (ZsDocument) document = zs_hjson_parse ("f", text, cut, remarks, &error);

      if ((document == NULL) != (error != NULL)
          || (error != NULL && strncmp (error->message, "f:", 2) != 0))
        CU_FAIL ("a refusal without its place");
    }
    for (int round = 0; round < 400; round++) {
      g_autofree char *mutant = g_memdup2 (text, length);
      g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));
      g_autoptr (GError) error = NULL;

      for (int i = 0; i < 1 + round % 7; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        mutant[(state >> 33) % length] = BYTES[(state >> 20) % (sizeof BYTES - 1)];
      }
      g_autoptr (ZsDocument) document = zs_hjson_parse ("f", mutant, length, remarks, &error);

      if ((document == NULL) != (error != NULL))
        CU_FAIL ("neither read nor refused");
    }
  }
  g_print ("# seed %" G_GUINT64_FORMAT ", %d files\n", seed, n_files);
  CU_ASSERT_TRUE (n_files >= 10);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a value has its place and text", a_value_has_its_place_and_text },
    { "columns count characters", columns_count_characters },
    { "what HJSON allows is read", what_hjson_allows_is_read },
    { "what strict JSON refuses is remarked", what_strict_json_refuses_is_remarked },
    { "a name given twice is an error or a remark", a_name_given_twice_is_an_error_or_a_remark },
    { "a broken text gives one error with its place",
      a_broken_text_gives_one_error_with_its_place },
    { "depth and size are limited", depth_and_size_are_limited },
    { "any bytes are read or refused", any_bytes_are_read_or_refused },
    CU_TEST_INFO_NULL
  };
  return testing_main ("hjson", tests);
}
