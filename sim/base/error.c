/* error.c: the error domain and lists of errors.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/error.h"

G_DEFINE_QUARK (zs - error - quark, zs_error)

struct ZsErrors {
  GError *kept[ZS_MAX_ERRORS];
  int count;
};

ZsErrors *
zs_errors_new (void)
{
  return g_new0 (ZsErrors, 1);
}

void
zs_errors_free (ZsErrors *errors)
{
  if (errors == NULL)
    return;
  for (int i = 0; i < ZS_MAX_ERRORS; i++)
    g_clear_error (&errors->kept[i]);
  g_free (errors);
}

void
zs_errors_take (ZsErrors *errors, GError *error)
{
  g_assert (error != NULL);
  if (errors->count < ZS_MAX_ERRORS)
    errors->kept[errors->count] = error;
  else
    g_error_free (error);
  errors->count++;
}

bool
zs_errors_add (ZsErrors *errors, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  zs_errors_take (errors, g_error_new_valist (ZS_ERROR, ZS_ERROR_INPUT, format, arguments));
  va_end (arguments);
  return false;
}

int
zs_errors_count (const ZsErrors *errors)
{
  return errors->count;
}

const GError *
zs_errors_get (const ZsErrors *errors, int index)
{
  g_assert (index >= 0 && index < MIN (errors->count, ZS_MAX_ERRORS));
  return errors->kept[index];
}

static void
append (const ZsErrors *errors, const char *prefix, GString *text)
{
  for (int i = 0; i < MIN (errors->count, ZS_MAX_ERRORS); i++)
    g_string_append_printf (text, "%s%s\n", prefix, errors->kept[i]->message);
  if (errors->count > ZS_MAX_ERRORS)
    g_string_append_printf (text, "%s%d more errors\n", prefix, errors->count - ZS_MAX_ERRORS);
}

char *
zs_errors_text (const ZsErrors *errors)
{
  GString *text = g_string_new (NULL);

  append (errors, "", text);
  return g_string_free (text, FALSE);
}

void
zs_errors_print (const ZsErrors *errors, const char *prefix, FILE *file)
{
  GString *text = g_string_new (NULL);

  append (errors, prefix, text);
  fputs (text->str, file);
  g_string_free (text, TRUE);
}
