/* document.h: a text of settings as a tree, each node with its place.
 * SPDX-License-Identifier: MIT
 *
 * YAML, JSON and HJSON all become this tree, so that one set of readers and one form of error message
 * serves them.  A document owns its nodes and their text; nodes are borrowed and live as long as the
 * document.  Limits (size, depth, number of nodes with aliases written out) are checked while the tree
 * is built, so that no input eats the memory or the stack.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/error.h"

#define ZS_DOCUMENT_MAX_BYTES (16 << 20)
#define ZS_DOCUMENT_MAX_DEPTH 64        /* of mappings and sequences */
#define ZS_DOCUMENT_MAX_NODES 200000

typedef enum { ZS_NODE_SCALAR, ZS_NODE_SEQUENCE, ZS_NODE_MAPPING } ZsNodeKind;

typedef struct ZsNode ZsNode;
typedef struct ZsDocument ZsDocument;

struct ZsNode {
  ZsNodeKind  kind;
  bool        quoted;      /* a scalar in quotes: a string, whatever it looks like */
  int         line, column;   /* from 1; 0: the place has no lines (a flag) */
  const char *file;        /* path as given, or "--set stage=4" */
  const char *text;        /* of a scalar: UTF-8, without NUL */
  ZsNode    **keys;        /* of a mapping: scalars, in order, each text once */
  ZsNode    **items;       /* values of a mapping, items of a sequence */
  int         n_items, room;
  GHashTable *index;       /* of a large mapping: text of a key to its place + 1 */
};

ZsDocument *zs_document_new  (const char *file) G_GNUC_WARN_UNUSED_RESULT;
void        zs_document_free (ZsDocument *document);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsDocument, zs_document_free)

ZsNode     *zs_document_root (const ZsDocument *document);   /* NULL while it is built */
const char *zs_document_file (const ZsDocument *document);
void        zs_document_set_root (ZsDocument *document, ZsNode *root);
/* Takes OTHER, which lives from now on as long as DOCUMENT: its nodes may be linked into DOCUMENT. */
void        zs_document_take (ZsDocument *document, ZsDocument *other);

/* ---- reading files ---- */

/* Parses TEXT (LENGTH bytes, which came from FILE, as messages name it).  NULL and ERROR if it is not
 * valid; errors start "file:line:column: ". */
ZsDocument *zs_yaml_parse (const char *file, const char *text, gsize length, GError **error);
/* Strict JSON, as Python's json.load takes it, but without NaN and Infinity. */
ZsDocument *zs_json_parse (const char *file, const char *text, gsize length, GError **error);
/* Reads PATH: JSON if its name ends in .json, else YAML. */
ZsDocument *zs_document_load (const char *path, GError **error);
/* What every parser checks first: size, UTF-8 (a BOM at the start is passed over by moving *TEXT), no
 * binary, not empty.  Columns count characters. */
bool zs_document_check_text (const char *file, const char **text, gsize *length, GError **error);

/* ---- building (parsers) ---- */

/* A new node, not linked yet; NULL and ERROR beyond ZS_DOCUMENT_MAX_NODES. */
ZsNode *zs_document_node   (ZsDocument *document, ZsNodeKind kind, int line, int column,
                            GError **error);
ZsNode *zs_document_scalar (ZsDocument *document, int line, int column, const char *text,
                            gsize length, bool quoted, GError **error);
/* VALUE under KEY at the end of MAPPING.  False and ERROR if KEY is there already: the message names
 * both places. */
bool    zs_node_add    (ZsNode *mapping, ZsNode *key, ZsNode *value, GError **error);
void    zs_node_append (ZsNode *sequence, ZsNode *item);
/* A copy of NODE and all below, owned by DOCUMENT, at the same places. */
ZsNode *zs_document_copy (ZsDocument *document, const ZsNode *node, GError **error);

/* ---- changing: --set and flags ---- */

/* VALUE under KEY of MAPPING, in place of what was there. */
void    zs_node_put (ZsDocument *document, ZsNode *mapping, const char *key, ZsNode *value);
/* A scalar that comes from ORIGIN ("--micro-batch 2"). */
ZsNode *zs_document_flag (ZsDocument *document, const char *origin, const char *text);

/* ---- asking ---- */

/* The value under KEY, or NULL; NODE may be NULL or no mapping. */
ZsNode *zs_node_get (const ZsNode *node, const char *key);
/* The key node itself, for its place; NULL if it is not there. */
ZsNode *zs_node_get_key (const ZsNode *node, const char *key);
bool    zs_node_is_null (const ZsNode *node);   /* null, ~ or nothing, not in quotes */
/* "a mapping", "a list", "a string", "a number", "true or false", "nothing": for messages */
const char *zs_node_describe (const ZsNode *node);

/* Typed values; false if NODE is not such a scalar (or NULL).  A quoted number is no number. */
bool zs_node_bool   (const ZsNode *node, bool *ret_value);      /* true, false (any case) */
bool zs_node_int    (const ZsNode *node, int64_t *ret_value);   /* also 5e8, 2.0 */
bool zs_node_number (const ZsNode *node, double *ret_value);

/* "file:line:column", or the file alone where there are no lines; free with g_free. */
char *zs_node_where (const ZsNode *node);
/* Adds "file:line:column: MESSAGE"; returns false. */
bool  zs_node_fail (const ZsNode *node, ZsErrors *errors, const char *format, ...)
  G_GNUC_PRINTF (3, 4);
/* The same as a GError (ERROR may be NULL). */
bool  zs_node_error (const ZsNode *node, GError **error, const char *format, ...)
  G_GNUC_PRINTF (3, 4);
