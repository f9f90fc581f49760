/* test-writers.c: JSON, CSV and whole files.  SPDX-License-Identifier: MIT */
#include <glib.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "sim/io/csv-writer.h"
#include "sim/io/document.h"
#include "sim/io/file.h"
#include "sim/io/json-writer.h"
#include "tests/testing.h"

static void
json_is_written_as_it_goes (void)
{
  GString *out = g_string_new (NULL);
  ZsJsonWriter *writer = zs_json_writer_new (out, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_int (writer, "n", INT64_MIN);
  zs_json_begin_array (writer, "a");
  zs_json_compact (writer);
  zs_json_begin_object (writer, NULL);
  zs_json_bool (writer, "b", true);
  zs_json_null (writer, "z");
  zs_json_end_object (writer);
  zs_json_number (writer, NULL, 0.1);
  zs_json_number (writer, NULL, NAN);
  zs_json_fixed (writer, NULL, -1234500, 6);
  zs_json_fixed (writer, NULL, 2000000, 6);
  zs_json_end_array (writer);
  zs_json_begin_array (writer, "e");
  zs_json_end_array (writer);
  zs_json_string (writer, "s", "\"\\\n\x01\xff");
  zs_json_end_object (writer);
  zs_json_writer_free (writer);
  CU_ASSERT_STRING_EQUAL (
      out->str, "{\n  \"n\": -9223372036854775808,\n  \"a\": [\n    {\"b\": true, \"z\": null},\n"
                "    0.1,\n    null,\n    -1.2345,\n    2\n  ],\n  \"e\": [],\n"
                "  \"s\": \"\\\"\\\\\\n\\u0001\xef\xbf\xbd\"\n}\n");
  g_autoptr (ZsDocument) document = zs_json_parse ("x", out->str, out->len, NULL);
  CU_ASSERT_PTR_NOT_NULL (document);
  g_string_free (out, TRUE);
}

static void
csv_fields_are_quoted_when_they_must (void)
{
  GString *out = g_string_new (NULL);
  ZsCsvWriter writer = zs_csv_writer (out);

  zs_csv_text (&writer, "a,b");
  zs_csv_text (&writer, "say \"x\"");
  zs_csv_int (&writer, -5);
  zs_csv_number (&writer, 1e-7);
  zs_csv_empty (&writer);
  zs_csv_end (&writer);
  zs_csv_text (&writer, "plain");
  zs_csv_end (&writer);
  CU_ASSERT_STRING_EQUAL (out->str, "\"a,b\",\"say \"\"x\"\"\",-5,1e-07,\nplain\n");
  g_string_free (out, TRUE);
}

static void
files_get_their_name_when_complete (void)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "x", NULL);
  g_autofree char *text = NULL;
  gsize length;

  CU_ASSERT_TRUE (zs_file_write (path, "old", -1, NULL));
  ZsFileWriter *writer = zs_file_writer_new (path, NULL);
  fputs ("new", zs_file_writer_stream (writer));
  zs_file_writer_free (writer);
  CU_ASSERT_TRUE (zs_file_read (path, 100, &text, &length, NULL));
  CU_ASSERT_STRING_EQUAL (text, "old");
  g_autoptr (GError) error = NULL;
  CU_ASSERT_FALSE (zs_file_read (path, 2, &text, &length, &error));
  CU_ASSERT_PTR_NOT_NULL (strstr (error->message, "larger than"));
  g_clear_error (&error);
  CU_ASSERT_FALSE (zs_file_read (folder, 2, &text, &length, &error));
  CU_ASSERT_PTR_NOT_NULL (strstr (error->message, "folder"));
  g_clear_error (&error);
  CU_ASSERT_FALSE (zs_file_write (folder, "x", -1, &error));
  GDir *dir = g_dir_open (folder, 0, NULL);
  CU_ASSERT_STRING_EQUAL (g_dir_read_name (dir), "x");
  CU_ASSERT_PTR_NULL (g_dir_read_name (dir));
  g_dir_close (dir);
  g_unlink (path);
  g_rmdir (folder);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "JSON is written as it goes", json_is_written_as_it_goes },
    { "CSV fields are quoted when they must", csv_fields_are_quoted_when_they_must },
    { "files get their name when complete", files_get_their_name_when_complete },
    CU_TEST_INFO_NULL
  };

  return testing_main ("writers", tests);
}
