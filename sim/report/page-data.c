/* page-data.c: what the page draws of one scenario.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/memory/caching-allocator.h"
#include "sim/report/describe.h"
#include "sim/report/explain.h"
#include "sim/report/page-internal.h"
#include "sim/report/result-json.h"

#define MAX_STEPS 3

/* A stretch of time that the page shows. */
typedef struct {
  int    step;
  ZsTime start, end;
} Window;

/* ---- which steps ---- */

static ZsTime
last_moment (const ZsResult *result)
{
  ZsTime last = 0;

  for (guint s = 0; result->spans != NULL && s < result->spans->len; s++)
    last = MAX (last, g_array_index (result->spans, ZsSpan, s).end);
  if (result->memory_events != NULL && result->memory_events->len > 0)
    last = MAX (last, g_array_index (result->memory_events, ZsMemoryEvent,
                                     result->memory_events->len - 1).when + 1);
  return last;
}

/* When the peak of training was reached, by the host's clock; -1 unknown. */
static ZsTime
peak_moment (const ZsResult *result, ZsTime training)
{
  int64_t allocated = 0;
  ZsTime found = -1;

  for (guint e = 0; result->memory_events != NULL && e < result->memory_events->len; e++) {
    const ZsMemoryEvent *event = &g_array_index (result->memory_events, ZsMemoryEvent, e);

    if (event->action == ZS_ALLOCATOR_FREE_REQUESTED)
      allocated -= event->block_bytes;
    if (event->action != ZS_ALLOCATOR_ALLOC)
      continue;
    allocated += event->block_bytes;
    if (allocated == result->peak_allocated_bytes && (found < 0 || found < training))
      found = event->when;
  }
  return found;
}

/* The first step, that of the peak and the last; all, if there are no more; the first is left out where
 * time counts.  After an OOM the step that was not finished, or everything if there was none. */
static GArray *
choose_windows (const ZsResult *result, bool quick, ZsTime *ret_peak)
{
  GArray *windows = g_array_new (FALSE, TRUE, sizeof (Window));

  for (guint p = 0; p < result->phases->len;) {
    const ZsPhaseResult *first = &g_array_index (result->phases, ZsPhaseResult, p);
    Window window = { .step = first->step, .start = first->start, .end = first->start };

    for (; p < result->phases->len
           && g_array_index (result->phases, ZsPhaseResult, p).step == window.step; p++) {
      const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

      window.end = MAX (window.end, phase->start + phase->time);
    }
    if (window.step > 0)
      g_array_append_val (windows, window);
  }
  if (result->outcome == ZS_OUTCOME_OOM) {
    if (windows->len == 0) {
      Window all = { .step = 0 };

      g_array_append_val (windows, all);
    }
    Window *last = &g_array_index (windows, Window, windows->len - 1);
    ZsTime before = windows->len > 1 ? g_array_index (windows, Window, windows->len - 2).end : 0;

    last->start = MAX (last->start, before);    /* what the GPU did not reach has no time */
    last->end = MAX (last_moment (result), last->start + 1);
  }
  for (guint w = windows->len; w-- > 0;)
    if (g_array_index (windows, Window, w).end <= g_array_index (windows, Window, w).start)
      g_array_remove_index (windows, w);
  *ret_peak = peak_moment (result, windows->len > 0 ? g_array_index (windows, Window, 0).start : 0);
  for (guint w = quick ? 0 : 1; windows->len > (quick ? 1 : MAX_STEPS) && w + 1 < windows->len;) {
    const Window *window = &g_array_index (windows, Window, w);

    if (*ret_peak >= window->start && *ret_peak < window->end)
      w++;
    else
      g_array_remove_index (windows, w);
  }
  return windows;
}

static void
write_steps (const ZsPageScenario *page, ZsJsonWriter *writer)
{
  const ZsResult *result = page->result;
  ZsTime peak = -1;
  g_autoptr (GArray) windows = result->spans != NULL ? choose_windows (result, page->quick, &peak)
                                                     : g_array_new (FALSE, FALSE, sizeof (Window));

  zs_json_begin_array (writer, "shown");
  for (guint w = 0; w < windows->len; w++) {
    const Window *window = &g_array_index (windows, Window, w);

    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "step", window->step);
    zs_json_int (writer, "time_ps", window->end - window->start);
    if (peak >= window->start && peak < window->end)
      zs_json_int (writer, "peak_ns", zs_page_ns (peak - window->start));
    zs_json_compact (writer);
    zs_json_begin_array (writer, "phases");
    for (guint p = 0; p < result->phases->len; p++) {
      const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

      if (phase->step != window->step)
        continue;
      zs_json_begin_object (writer, NULL);
      zs_json_string (writer, "phase", zs_phase_name (phase->phase));
      zs_json_int (writer, "micro_step", phase->micro_step);
      zs_json_int (writer, "start_ns", MAX (0, zs_page_ns (phase->start - window->start)));
      zs_json_int (writer, "time_ns", zs_page_ns (phase->time));
      zs_json_end_object (writer);
    }
    zs_json_end_array (writer);
    zs_page_write_spans (page, window->start, window->end, writer);
    zs_page_write_memory (page, window->start, window->end, writer);
    zs_page_write_links (page, window->start, window->end, writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

/* ---- the rest ---- */

static void
write_topology (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  const ZsTopology *topology = scenario->topology;

  zs_json_begin_object (writer, "topology");
  zs_json_string (writer, "name", topology->name);
  zs_json_int (writer, "nodes", topology->n_nodes);
  zs_json_int (writer, "links_of_node", topology->n_links);
  if (topology->n_nodes > 1)
    zs_json_string (writer, "network", topology->network.name);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "parts");
  for (int p = 0; p < topology->n_parts; p++) {
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "kind", zs_part_kind_name (topology->parts[p].kind));
    zs_json_string (writer, "name", topology->parts[p].name);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "links");
  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *link = &topology->links[l];

    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "kind", zs_link_kind_name (link->kind));
    zs_json_string (writer, "name", link->name);
    zs_json_int (writer, "from", link->from);
    zs_json_int (writer, "to", link->to);
    zs_json_int (writer, "count", link->count);
    zs_json_int (writer, "generation", link->generation);
    zs_json_int (writer, "rate", link->rate);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static void
write_strings (ZsJsonWriter *writer, const char *key, const char *const *strings)
{
  zs_json_begin_array (writer, key);
  for (int i = 0; strings[i] != NULL; i++)
    zs_json_string (writer, NULL, strings[i]);
  zs_json_end_array (writer);
}

static void
write_settings (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, "settings");
  for (guint s = 0; s < scenario->settings->rows->len; s++) {
    const ZsSetting *setting = &g_array_index (scenario->settings->rows, ZsSetting, s);
    g_autofree char *origin = zs_setting_origin_text (setting);

    zs_json_compact (writer);
    zs_json_begin_array (writer, NULL);
    zs_json_string (writer, NULL, setting->path);
    zs_json_string (writer, NULL, setting->value);
    zs_json_string (writer, NULL, origin);
    zs_json_end_array (writer);
  }
  zs_json_end_array (writer);
}

static void
write_stories (const ZsPageScenario *page, ZsJsonWriter *writer)
{
  ZsExplainInput input = { .scenario = page->scenario, .result = page->result,
                           .changes = page->changes, .n_changes = page->n_changes };

  zs_json_begin_array (writer, "stories");
  for (int language = 0; language < ZS_N_LANGUAGES; language++)
    for (int level = 0; level < ZS_N_EXPLAIN_LEVELS; level++) {
      g_autoptr (GPtrArray) story = zs_explain (&input, level, language);

      zs_json_begin_object (writer, NULL);
      zs_json_string (writer, "language", zs_language_code (language));
      zs_json_string (writer, "level", zs_explain_level_name (level));
      zs_json_begin_array (writer, "sections");
      for (guint s = 0; s < story->len; s++) {
        const ZsStorySection *section = g_ptr_array_index (story, s);

        zs_json_begin_object (writer, NULL);
        zs_json_string (writer, "title", section->title);
        write_strings (writer, "sentences", (const char *const *) section->sentences->pdata);
        zs_json_end_object (writer);
      }
      zs_json_end_array (writer);
      zs_json_end_object (writer);
    }
  zs_json_end_array (writer);
}

void
zs_page_write_scenario (const ZsPageScenario *page, ZsJsonWriter *writer)
{
  const ZsScenario *scenario = page->scenario;
  int n_notes = zs_notes_count (scenario->notes);
  g_autofree ZsResultNote *notes = g_new0 (ZsResultNote, n_notes + 1);
  g_autofree char *title = zs_scenario_title (scenario);
  g_auto (GStrv) lines = zs_scenario_lines (scenario);
  g_auto (GStrv) assumed = zs_scenario_assumptions (scenario);

  for (int i = 0; i < n_notes; i++) {
    const ZsNote *note = zs_notes_get (scenario->notes, i);

    notes[i] = (ZsResultNote) { .code = note->code, .where = note->where, .text = note->text };
  }
  zs_json_string (writer, "name", scenario->name);
  zs_json_string (writer, "title", title);
  write_strings (writer, "lines", (const char *const *) lines);
  write_strings (writer, "assumed", (const char *const *) assumed);
  zs_json_begin_object (writer, "result");
  zs_json_string (writer, "name", scenario->name);
  zs_result_write_json (page->result, notes, n_notes, writer);
  zs_json_end_object (writer);
  write_settings (scenario, writer);
  write_topology (scenario, writer);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "categories");
  for (int c = 0; c < ZS_N_CATEGORIES; c++)
    zs_json_string (writer, NULL, zs_category_name (c));
  zs_json_end_array (writer);
  write_stories (page, writer);
  write_steps (page, writer);
}
