/* page.h: the page: one HTML file that holds its data, style and program and asks nobody for more.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>

#include "sim/report/page-data.h"

/* The page of SCENARIOS beside one another, at the end of HTML. */
void zs_page_write (const ZsPageScenario *scenarios, int n_scenarios, GString *html);
/* The same around DATA, the JSON of the page: {"scenarios": [...], "controls": [...]}. */
void zs_page_write_around (const char *title, const char *data, GString *html);

/* A source of the page by its name, "page.css". */
const char *zs_page_file (const char *name);
