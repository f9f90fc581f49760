/* version.c: the table of behaviours.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/version.h"

typedef struct {
  ZsSoftware  software;
  ZsVersion   since, until;
  const char *text;
} Behaviour;

static const Behaviour BEHAVIOURS[] = {
#define BEHAVIOUR(name, software, since, until, text)                                              \
  { ZS_SOFTWARE_##software, since, until, text },
#include "sim/base/behaviours.def"
#undef BEHAVIOUR
};

bool
zs_behaves (const ZsVersions *versions, ZsBehaviour behaviour)
{
  const Behaviour *row = &BEHAVIOURS[behaviour];
  ZsVersion version = versions->of[row->software];

  return version >= row->since && (row->until == 0 || version < row->until);
}

const char *
zs_behaviour_text (ZsBehaviour behaviour)
{
  return BEHAVIOURS[behaviour].text;
}

bool
zs_version_parse (const char *text, ZsVersion *ret_version)
{
  int64_t parts[3] = { 0, 0, 0 };
  int n_parts = 0;

  for (const char *at = text; n_parts < 3;) {
    if (!g_ascii_isdigit (*at))
      return false;
    int64_t value = 0;

    while (g_ascii_isdigit (*at)) {
      value = value * 10 + (*at++ - '0');
      if (value > 999)
        return false;
    }
    parts[n_parts++] = value;
    if (*at != '.' || !g_ascii_isdigit (at[1])) {
      if (*at != '\0' && *at != '+' && *at != '.' && *at != '-' && !g_ascii_isalpha (*at))
        return false;
      break;
    }
    at++;
  }
  *ret_version = (ZsVersion) (parts[0] * 1000000 + parts[1] * 1000 + parts[2]);
  return true;
}

char *
zs_version_format (ZsVersion version)
{
  return g_strdup_printf ("%d.%d.%d", version / 1000000, version / 1000 % 1000, version % 1000);
}
