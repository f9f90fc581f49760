/* tree.h: a document's tree as text again: YAML for people, JSON for DeepSpeed.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/io/document.h"
#include "sim/io/json-writer.h"

void zs_tree_write_yaml (const ZsNode *node, GString *text);
/* As the value of KEY (NULL at the top). */
void zs_tree_write_json (const ZsNode *node, const char *key, ZsJsonWriter *writer);
