/* topo-file.c: a topology from a file of either kind.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/error.h"
#include "sim/io/file.h"
#include "sim/network/topology.h"

#include <string.h>

ZsTopology *
zs_topology_from_file (const char *path, const ZsTopologyOptions *options, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!zs_file_read (path, 4 << 20, &text, &length, error))
    return NULL;
  /* XML starts with '<', after blanks or a byte order mark */
  const char *at = text;

  while (*at != '\0' && (g_ascii_isspace (*at) || (guchar) *at >= 0x80))
    at++;
  if (*at == '<')
    return zs_topology_from_nccl_xml (path, text, (gssize) length, options, error);
  return zs_topology_from_smi (path, text, (gssize) length, options, error);
}
