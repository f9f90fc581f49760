/* units.c: reading and printing numbers with units.  SPDX-License-Identifier: MIT
 *
 * A number is read as digits * 10^exponent, and a unit is a fraction of whole numbers, so that the
 * product is exact until the one rounding at the end. */
#include "config.h"

#include "sim/base/units.h"

#include <math.h>
#include <string.h>

#include "sim/base/error.h"

typedef struct {
  const char *name;
  int64_t times, per; /* a unit is times / per of ours */
} Unit;

#define KIB INT64_C (1024)
static const Unit BYTES[] = {
  { "GiB", KIB *KIB *KIB, 1 },
  { "GB", 1000000000, 1 },
  { "MiB", KIB *KIB, 1 },
  { "MB", 1000000, 1 },
  { "KiB", KIB, 1 },
  { "kB", 1000, 1 },
  { "KB", 1000, 1 },
  { "B", 1, 1 },
  { "TiB", KIB *KIB *KIB *KIB, 1 },
  { "TB", INT64_C (1000000000000), 1 },
  { "PB", INT64_C (1000000000000000), 1 },
  { "PiB", KIB *KIB *KIB *KIB *KIB, 1 },
  { "byte", 1, 1 },
  { "bytes", 1, 1 },
};
static const Unit RATES[] = {
  { "GB/s", 1000000000, 1 },
  { "GiB/s", KIB *KIB *KIB, 1 },
  { "Gb/s", 1000000000, 8 },
  { "Gbit/s", 1000000000, 8 },
  { "Gbps", 1000000000, 8 },
  { "MB/s", 1000000, 1 },
  { "MiB/s", KIB *KIB, 1 },
  { "Mb/s", 1000000, 8 },
  { "Mbit/s", 1000000, 8 },
  { "Mbps", 1000000, 8 },
  { "TB/s", INT64_C (1000000000000), 1 },
  { "TiB/s", KIB *KIB *KIB *KIB, 1 },
  { "Tb/s", INT64_C (1000000000000), 8 },
  { "Tbit/s", INT64_C (1000000000000), 8 },
  { "KiB/s", KIB, 1 },
  { "kB/s", 1000, 1 },
  { "KB/s", 1000, 1 },
  { "kb/s", 1000, 8 },
  { "B/s", 1, 1 },
  { "b/s", 1, 8 },
};
static const Unit TIMES[] = {
  { "ps", 1, 1 },
  { "ns", 1000, 1 },
  { "us", ZS_MICROSECOND, 1 },
  { "µs", ZS_MICROSECOND, 1 }, /* U+00B5 */
  { "μs", ZS_MICROSECOND, 1 }, /* U+03BC */
  { "ms", ZS_MILLISECOND, 1 },
  { "s", ZS_SECOND, 1 },
  { "min", 60 * ZS_SECOND, 1 },
  { "h", 3600 * ZS_SECOND, 1 },
};

typedef struct {
  bool negative;
  uint64_t digits; /* the first 19 that count */
  int exponent;    /* of ten */
} Decimal;

static bool
fail (GError **error, const char *format, ...)
{
  va_list arguments;

  if (error == NULL)
    return false;
  va_start (arguments, format);
  *error = g_error_new_valist (ZS_ERROR, ZS_ERROR_INPUT, format, arguments);
  va_end (arguments);
  return false;
}

/* Reads a decimal number; returns where it ends, or NULL. */
static const char *
read_decimal (const char *text, Decimal *ret_decimal)
{
  Decimal decimal = { 0 };
  bool any = false, point = false;

  while (g_ascii_isspace (*text))
    text++;
  if (*text == '-' || *text == '+')
    decimal.negative = *text++ == '-';
  for (;; text++) {
    if (*text == '.' && !point) {
      point = true;
    } else if (g_ascii_isdigit (*text)) {
      any = true;
      if (decimal.digits < UINT64_C (1000000000000000000)) {
        decimal.digits = decimal.digits * 10 + (uint64_t)(*text - '0');
        decimal.exponent -= point;
      } else {
        if (!point && decimal.exponent < 10000)
          decimal.exponent++;
        if (*text != '0')
          decimal.digits |= 1; /* never exact beyond: keep it from a tie */
      }
    } else {
      break;
    }
  }
  if (!any)
    return NULL;
  if ((*text == 'e' || *text == 'E')
      && (g_ascii_isdigit (text[1])
          || ((text[1] == '-' || text[1] == '+') && g_ascii_isdigit (text[2])))) {
    bool negative = text[1] == '-';
    int exponent = 0;

    text += g_ascii_isdigit (text[1]) ? 1 : 2;
    for (; g_ascii_isdigit (*text); text++)
      exponent = MIN (exponent * 10 + (*text - '0'), 10000);
    decimal.exponent += negative ? -exponent : exponent;
  }
  *ret_decimal = decimal;
  return text;
}

/* DECIMAL * times / per to the nearest whole number; false if it is not below 2^63.  *RET_EXACT
 * (may be NULL) says whether nothing was rounded. */
static bool
scale (const Decimal *decimal, int64_t times, int64_t per, int64_t *ret_value, bool *ret_exact)
{
  __int128 value = (__int128)decimal->digits * times, divisor = per; /* below 2^114 */
  int exponent = decimal->exponent;

  for (; exponent > 0 && value != 0; exponent--) {
    if (value > ((__int128)1 << 120))
      return false;
    value *= 10;
  }
  bool sticky = false;
  for (; exponent < 0; exponent++) {
    if (divisor > ((__int128)1 << 120)) { /* drop digits that are far below one half */
      sticky = sticky || value % 10 != 0;
      value /= 10;
      if (value == 0)
        break;
    } else {
      divisor *= 10;
    }
  }
  __int128 quotient = value / divisor, rest = value % divisor;
  bool exact = rest == 0 && !sticky;

  if (rest * 2 > divisor || (rest * 2 == divisor && (sticky || (quotient & 1))))
    quotient++;
  if (quotient > INT64_MAX)
    return false;
  *ret_value = decimal->negative ? -(int64_t)quotient : (int64_t)quotient;
  if (ret_exact != NULL)
    *ret_exact = exact;
  return true;
}

/* Units that people write and that we do not guess. */
static const char *
unit_advice (const char *unit, const char *kind)
{
  if (strcmp (kind, "size") == 0) {
    if (strchr (unit, 'b') != NULL && strchr (unit, 'B') == NULL && strlen (unit) <= 3)
      return ": 'b' is bits; write GB (10^9 bytes) or GiB (2^30 bytes)";
    if (strlen (unit) == 1)
      return ": write GB (10^9 bytes) or GiB (2^30 bytes), which differ";
  }
  if (strcmp (kind, "rate") == 0) {
    if (strcmp (unit, "GT/s") == 0)
      return ": transfers a second are not bytes; write the rate in GB/s";
    if (strchr (unit, '/') == NULL)
      return ": write GB/s (bytes) or Gb/s (bits)";
  }
  return "";
}

static bool
parse (const char *text, const char *kind, const char *example, const Unit *units, size_t n_units,
       int64_t *ret_value, GError **error)
{
  Decimal decimal;
  const char *at = read_decimal (text, &decimal);

  if (at == NULL)
    return fail (error, "a %s such as %s is wanted, not '%.40s'", kind, example, text);
  while (g_ascii_isspace (*at))
    at++;

  g_autofree char *unit = g_strchomp (g_strndup (at, 40));
  const Unit *found = NULL;

  for (size_t i = 0; i < n_units && found == NULL; i++)
    if (strcmp (unit, units[i].name) == 0)
      found = &units[i];
  if (found == NULL && *unit == '\0') {
    if (decimal.digits != 0)
      return fail (error, "a %s needs its unit, such as %s, not '%.40s'", kind, example, text);
    *ret_value = 0;
    return true;
  }
  if (found == NULL)
    return fail (error, "'%s' is not a unit of a %s such as %s%s", unit, kind, example,
                 unit_advice (unit, kind));
  if (decimal.negative && decimal.digits != 0)
    return fail (error, "a %s cannot be negative: '%.40s'", kind, text);
  if (!scale (&decimal, found->times, found->per, ret_value, NULL))
    return fail (error, "'%.40s' is too large", text);
  return true;
}

bool
zs_bytes_parse (const char *text, int64_t *ret_bytes, GError **error)
{
  return parse (text, "size", "80 GiB", BYTES, G_N_ELEMENTS (BYTES), ret_bytes, error);
}

bool
zs_rate_parse (const char *text, ZsRate *ret_rate, GError **error)
{
  return parse (text, "rate", "25 GB/s", RATES, G_N_ELEMENTS (RATES), ret_rate, error);
}

bool
zs_time_parse (const char *text, ZsTime *ret_time, GError **error)
{
  return parse (text, "time", "5 us", TIMES, G_N_ELEMENTS (TIMES), ret_time, error);
}

bool
zs_count_parse (const char *text, int64_t *ret_count, GError **error)
{
  Decimal decimal;
  const char *at = read_decimal (text, &decimal);
  int64_t value;
  bool exact;

  if (at != NULL)
    while (g_ascii_isspace (*at))
      at++;
  if (at == NULL || *at != '\0')
    return fail (error, "a whole number is wanted, not '%.40s'", text);
  if (!scale (&decimal, 1, 1, &value, &exact))
    return fail (error, "'%.40s' is too large", text);
  if (!exact)
    return fail (error, "a whole number is wanted, not '%.40s'", text);
  *ret_count = value;
  return true;
}

bool
zs_number_parse (const char *text, double *ret_number, GError **error)
{
  Decimal decimal;
  const char *at = read_decimal (text, &decimal);

  if (at != NULL)
    while (g_ascii_isspace (*at))
      at++;
  if (at == NULL || *at != '\0')
    return fail (error, "a number is wanted, not '%.40s'", text);

  double value = g_ascii_strtod (text, NULL);

  if (!isfinite (value))
    return fail (error, "'%.40s' is too large", text);
  *ret_number = value;
  return true;
}

bool
zs_message_size_parse (const char *text, int64_t *ret_bytes, GError **error)
{
  static const Unit SHORT[] = {
    { "", 1, 1 },
    { "K", KIB, 1 },
    { "M", KIB * KIB, 1 },
    { "G", KIB * KIB * KIB, 1 },
    { "T", KIB * KIB * KIB * KIB, 1 },
  };
  Decimal decimal;
  const char *at = read_decimal (text, &decimal);

  for (size_t i = 0; at != NULL && !decimal.negative && i < G_N_ELEMENTS (SHORT); i++)
    if (g_ascii_strcasecmp (at, SHORT[i].name) == 0) {
      if (!scale (&decimal, SHORT[i].times, 1, ret_bytes, NULL))
        return fail (error, "'%.40s' is too large", text);
      return true;
    }
  return zs_bytes_parse (text, ret_bytes, error);
}

/* VALUE with at most DECIMALS decimals and no trailing zeros, then UNIT. */
static char *
format_number (double value, int decimals, const char *unit)
{
  char buffer[64];
  char format[8];

  g_snprintf (format, sizeof format, "%%.%df", decimals);
  g_ascii_formatd (buffer, sizeof buffer, format, value);
  if (strchr (buffer, '.') != NULL) {
    size_t length = strlen (buffer);

    while (buffer[length - 1] == '0')
      length--;
    length -= buffer[length - 1] == '.';
    buffer[length] = '\0';
  }
  return g_strdup_printf ("%s %s", buffer, unit);
}

static char *
format_scaled (int64_t value, double base, const char *const *units)
{
  double scaled = (double)value;

  /* 999.996 would print as 1000: go on to the next unit */
  while (units[1] != NULL && fabs (scaled) >= base - 0.005) {
    scaled /= base;
    units++;
  }
  return format_number (scaled, 2, *units);
}

char *
zs_bytes_format (int64_t bytes)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL };

  return format_scaled (bytes, 1024, units);
}

char *
zs_rate_format (ZsRate rate)
{
  static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL };

  return format_scaled (rate, 1000, units);
}

char *
zs_time_format (ZsTime time)
{
  static const char *const units[] = { "ps", "ns", "us", "ms", "s", NULL };
  double scaled = (double)time;
  int unit = 0;

  while (units[unit + 1] != NULL && fabs (scaled) >= 999.95) {
    scaled /= 1000;
    unit++;
  }
  double size = fabs (scaled);

  return format_number (scaled, size < 9.9995 ? 3 : size < 99.995 ? 2 : 1, units[unit]);
}

char *
zs_count_format (int64_t count)
{
  g_autofree char *digits = g_strdup_printf ("%" G_GINT64_FORMAT, count);
  GString *text = g_string_new (NULL);
  size_t length = strlen (digits);

  for (size_t i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
      g_string_append_c (text, ',');
    g_string_append_c (text, digits[i]);
  }
  return g_string_free (text, FALSE);
}
