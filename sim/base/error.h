/* error.h: the error domain, and a list that collects the mistakes of one input.
 * SPDX-License-Identifier: MIT
 *
 * Bad input is a GError in the domain ZS_ERROR.  A message about a file starts "file:line:column: ".
 * A reader that can go on after a mistake adds it to a ZsErrors, so that a person sees all that do
 * not follow from one another (ten at most) at once.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#define ZS_ERROR (zs_error_quark ())
typedef enum {
  ZS_ERROR_INPUT,   /* a file or value is wrong: exit status 1 */
  ZS_ERROR_USAGE,   /* the command line is wrong: exit status 2 */
  ZS_ERROR_LIMIT,   /* a limit of ours, or an interruption: exit status 3 */
} ZsErrorCode;

GQuark zs_error_quark (void);

#define ZS_MAX_ERRORS 10

typedef struct ZsErrors ZsErrors;

ZsErrors *zs_errors_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void      zs_errors_free (ZsErrors *errors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsErrors, zs_errors_free)

/* Takes ERROR.  Beyond ZS_MAX_ERRORS errors are counted only. */
void zs_errors_take (ZsErrors *errors, GError *error);
/* Adds an error of ZS_ERROR_INPUT.  Returns false, so that failing is one statement. */
bool zs_errors_add  (ZsErrors *errors, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* How many there are, those not kept included. */
int           zs_errors_count (const ZsErrors *errors);
/* The one at INDEX below min (count, ZS_MAX_ERRORS). */
const GError *zs_errors_get   (const ZsErrors *errors, int index);
/* One a line, and a last line that says how many more there are; free with g_free. */
char         *zs_errors_text  (const ZsErrors *errors);
/* The same to FILE, each line after PREFIX (may be ""). */
void          zs_errors_print (const ZsErrors *errors, const char *prefix, FILE *file);
