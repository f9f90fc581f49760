/* hjson.h: HJSON as the Python package `hjson` reads it, which is how DeepSpeed reads a ds_config.
 * SPDX-License-Identifier: MIT
 *
 * Beside JSON: comments (#, //, and between slash-star and star-slash), commas at the end and
 * commas left out, names and strings without quotes or in single quotes, strings of several lines
 * between ''' and ''', and a root without braces.  A string without quotes takes the whole rest of
 * its line, commas, braces and comments included: `"enabled": True,` is the string "True,".
 *
 * Everything that Python's strict json (which Hugging Face uses) would refuse is remarked.
 */
#pragma once

#include "sim/io/document.h"

typedef enum {
  ZS_HJSON_COMMENT,
  ZS_HJSON_TRAILING_COMMA,
  ZS_HJSON_MISSING_COMMA,
  ZS_HJSON_UNQUOTED_NAME,
  ZS_HJSON_UNQUOTED_STRING,
  ZS_HJSON_PYTHON_LITERAL, /* True, False, None: a string to HJSON, an error to JSON */
  ZS_HJSON_SINGLE_QUOTES,
  ZS_HJSON_MULTI_LINE,
  ZS_HJSON_NO_BRACES,
  ZS_HJSON_BYTE_ORDER_MARK,
  ZS_HJSON_DUPLICATE, /* strict JSON: the last one wins; DeepSpeed refuses it */
  ZS_N_HJSON_REMARKS
} ZsHjsonRemarkKind;

typedef struct {
  ZsHjsonRemarkKind kind;
  int line, column;
  int first_line;       /* DUPLICATE: of the first one */
  gsize offset, length; /* in the text as it was given: where, and how many bytes it is about */
  char text[48];        /* the name or string concerned, cut to fit */
} ZsHjsonRemark;

/* Parses TEXT (LENGTH bytes, from FILE).  NULL and ERROR if it is not HJSON; errors start
 * "file:line:column: ".  REMARKS (an array of ZsHjsonRemark, or NULL) gets what strict JSON would
 * refuse, in the order of the text; without it a name given twice is an error, with it the last one
 * wins.  In the tree, strings are `quoted` whether they had quotes or not. */
ZsDocument *zs_hjson_parse (const char *file, const char *text, gsize length, GArray *remarks,
                            GError **error);
/* "a comment", "a comma before '}'": what KIND is, for a message. */
const char *zs_hjson_remark_name (ZsHjsonRemarkKind kind);
