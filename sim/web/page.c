/* page.c: puts the page together.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/web/page.h"

#include <string.h>

/* In this order: a later one uses those before. */
static const char *const SCRIPTS[] = { "data.js", "words.js", "timeline.js", "memory.js",
                                       "topology.js", "panels.js", "live.js", "page.js" };

/* JSON inside a script element: nothing in it may look like the element's end. */
static void
append_json (GString *html, const char *json)
{
  for (const char *at = json; *at != '\0';) {
    const char *next = strchr (at, '<');
    gssize length = next != NULL ? next - at : (gssize) strlen (at);

    g_string_append_len (html, at, length);
    at += length;
    if (next != NULL) {
      g_string_append (html, "\\u003c");
      at++;
    }
  }
}

void
zs_page_write_around (const char *title, const char *data, GString *html)
{
  const char *at = zs_page_file ("page.html");
  const char *mark;

  while ((mark = strstr (at, "@@")) != NULL) {
    const char *name = mark + 2, *end = strstr (name, "@@");

    g_string_append_len (html, at, mark - at);
    if (g_str_has_prefix (name, "TITLE")) {
      g_autofree char *escaped = g_markup_escape_text (title, -1);

      g_string_append (html, escaped);
    } else if (g_str_has_prefix (name, "STYLE")) {
      g_string_append (html, zs_page_file ("page.css"));
    } else if (g_str_has_prefix (name, "DATA")) {
      append_json (html, data);
    } else {
      for (size_t i = 0; i < G_N_ELEMENTS (SCRIPTS); i++)
        g_string_append (html, zs_page_file (SCRIPTS[i]));
    }
    at = end + 2;
  }
  g_string_append (html, at);
}

void
zs_page_write (const ZsPageScenario *scenarios, int n_scenarios, GString *html)
{
  g_autoptr (GString) data = g_string_new (NULL);
  g_autoptr (GString) title = g_string_new ("zerosim: ");
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new (data, 0);

  zs_json_begin_object (writer, NULL);
  zs_json_begin_array (writer, "scenarios");
  for (int s = 0; s < n_scenarios; s++) {
    zs_json_begin_object (writer, NULL);
    zs_page_write_scenario (&scenarios[s], writer);
    zs_json_end_object (writer);
    g_string_append_printf (title, "%s%s", s > 0 ? " | " : "", scenarios[s].scenario->name);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
  zs_page_write_around (title->str, data->str, html);
}
