/* nccl-environment.c: NCCL_* variables that change what NCCL chooses.
 * SPDX-License-Identifier: MIT
 *
 * Source: NCCL 2.30 environment variables (user guide) and src/graph, src/enqueue.cc, src/init.cc. */
#include "config.h"

#include "sim/network/nccl-graph.h"

#include "sim/base/error.h"
#include "sim/base/words.h"

#include <string.h>

/* The value of NAME, or NULL; the last one counts. */
static const char *
value_of (const char *const *environment, const char *name)
{
  const char *value = NULL;
  size_t length = strlen (name);

  for (int i = 0; environment != NULL && environment[i] != NULL; i++)
    if (strncmp (environment[i], name, length) == 0 && environment[i][length] == '=')
      value = environment[i] + length + 1;
  return value;
}

static bool
read_int (const char *const *environment, const char *name, int64_t low, int64_t high, int64_t *ret, GError **error)
{
  const char *text = value_of (environment, name);
  char *end;

  if (text == NULL || *text == '\0')
    return true;
  gint64 value = g_ascii_strtoll (text, &end, 0);

  if (*end != '\0' || value < low || value > high) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s must be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ", not '%s'",
                 name, low, high, text);
    return false;
  }
  *ret = value;
  return true;
}

static bool
read_level (const char *const *environment, const char *name, int *ret, GError **error)
{
  static const char *const WORDS[] = { "LOC", "NVL", "NVB", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", NULL };
  static const ZsPathType TYPES[] = { ZS_PATH_SELF, ZS_PATH_NVLINK, ZS_PATH_NVB, ZS_PATH_PIX, ZS_PATH_PXB,
                                      ZS_PATH_P2C, ZS_PATH_PXN, ZS_PATH_PHB, ZS_PATH_SYS };
  /* numbers of the releases before 2.5 */
  static const ZsPathType OLD[] = { ZS_PATH_SELF, ZS_PATH_PIX, ZS_PATH_PXB, ZS_PATH_PHB, ZS_PATH_SYS, ZS_PATH_SYS };
  const char *text = value_of (environment, name);

  if (text == NULL || *text == '\0')
    return true;
  for (int i = 0; WORDS[i] != NULL; i++)
    if (g_ascii_strcasecmp (WORDS[i], text) == 0) {
      *ret = TYPES[i];
      return true;
    }
  if (text[0] >= '0' && text[0] <= '5' && text[1] == '\0') {
    *ret = OLD[text[0] - '0'];
    return true;
  }
  g_autofree char *hint = zs_nearest_hint (text, WORDS);

  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
               "%s must be LOC, NVL, NVB, PIX, PXB, PHB, SYS or 0 to 5, not '%s'%s", name, text, hint);
  return false;
}

/* "Ring,Tree" or "^LL128"; a list of this form may also be "allreduce:tree;..." (from 2.24), of which
 * only the part without a collective's name is read. */
static bool
read_list (const char *const *environment, const char *name, const char *const *words, bool *allowed, int n,
           bool *ret_set, GError **error)
{
  const char *text = value_of (environment, name);

  for (int i = 0; i < n; i++)
    allowed[i] = true;
  if (text == NULL || *text == '\0')
    return true;
  bool not = *text == '^';
  g_auto (GStrv) items = g_strsplit_set (text + not, ",;", -1);

  if (!not) {
    for (int i = 0; i < n; i++)
      allowed[i] = false;
    *ret_set = true;
  }
  for (int i = 0; items[i] != NULL; i++) {
    const char *item = strchr (items[i], ':') != NULL ? strchr (items[i], ':') + 1 : items[i];
    int found = -1;

    for (int k = 0; k < n; k++)
      if (g_ascii_strcasecmp (words[k], g_strstrip ((char *) item)) == 0)
        found = k;
    if (found < 0) {
      g_autofree char *hint = zs_nearest_hint (item, words);
      g_autofree char *known = g_strjoinv (", ", (char **) words);

      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: unknown word '%s'%s; known are %s", name, item, hint, known);
      return false;
    }
    allowed[found] = !not;
  }
  bool any = false;

  for (int i = 0; i < n; i++)
    any |= allowed[i];
  if (!any || items[0] == NULL) {
    g_autofree char *known = g_strjoinv (", ", (char **) words);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: '%s' leaves nothing of %s", name, text, known);
  }
  return any && items[0] != NULL;
}

bool
zs_nccl_environment (ZsVersion version, const char *const *environment, ZsNcclEnvironment *ret, GError **error)
{
  static const char *const ALGORITHMS[] = { "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree",
                                            "PAT", NULL };
  static const char *const PROTOCOLS[] = { "LL", "LL128", "Simple", NULL };
  ZsNcclEnvironment read = {
    .version = version > 0 ? version : ZS_VERSION (2, 30, 7), .p2p_level = -1, .gdr_level = -1, .nvls_enable = -1,
    .cross_nic = 2, .buffer_bytes = 4 << 20,
  };
  int64_t p2p = 0, ignore = 0, shm = 0, nvb = 0, pxn = 0, nvls = 2, cross = 2, ib = 0, connect = -1;
  int64_t min_channels = 0, max_channels = 0, min_ctas = 0, max_ctas = 0, p2p_channels = 0, threads = 0;
  int64_t sockets = 1;
  bool set = false;

  if (!read_int (environment, "NCCL_P2P_DISABLE", 0, 1, &p2p, error)
      || !read_int (environment, "NCCL_IGNORE_DISABLED_P2P", 0, 2, &ignore, error)
      || !read_int (environment, "NCCL_SHM_DISABLE", 0, 1, &shm, error)
      || !read_int (environment, "NCCL_NVB_DISABLE", 0, 1, &nvb, error)
      || !read_int (environment, "NCCL_PXN_DISABLE", 0, 1, &pxn, error)
      || !read_int (environment, "NCCL_NVLS_ENABLE", 0, 2, &nvls, error)
      || !read_int (environment, "NCCL_CROSS_NIC", 0, 2, &cross, error)
      || !read_int (environment, "NCCL_IB_DISABLE", 0, 1, &ib, error)
      || !read_int (environment, "NCCL_RUNTIME_CONNECT", 0, 1, &connect, error)
      || !read_int (environment, "NCCL_MIN_NCHANNELS", 0, 64, &min_channels, error)
      || !read_int (environment, "NCCL_MAX_NCHANNELS", 0, 64, &max_channels, error)
      || !read_int (environment, "NCCL_MIN_CTAS", 0, 64, &min_ctas, error)
      || !read_int (environment, "NCCL_MAX_CTAS", 0, 64, &max_ctas, error)
      || !read_int (environment, "NCCL_MAX_P2P_NCHANNELS", 0, 64, &p2p_channels, error)
      || !read_int (environment, "NCCL_NTHREADS", 0, 1024, &threads, error)
      || !read_int (environment, "NCCL_SOCKET_NTHREADS", 0, 16, &sockets, error)
      || !read_int (environment, "NCCL_BUFFSIZE", 1024, INT64_C (1) << 32, &read.buffer_bytes, error)
      || !read_level (environment, "NCCL_P2P_LEVEL", &read.p2p_level, error)
      || !read_level (environment, "NCCL_NET_GDR_LEVEL", &read.gdr_level, error)
      || !read_list (environment, "NCCL_ALGO", ALGORITHMS, read.algorithms, ZS_N_ALGORITHMS, &set, error)
      || !read_list (environment, "NCCL_PROTO", PROTOCOLS, read.protocols, ZS_N_PROTOCOLS, &read.protocols_set, error))
    return false;
  bool any = false;

  for (int a = 0; a < ZS_N_ALGORITHMS; a++)
    any |= read.algorithms[a] && a != ZS_ALGORITHM_COLLNET_DIRECT && a != ZS_ALGORITHM_COLLNET_CHAIN;
  if (!any) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "NCCL_ALGO: CollNetDirect and CollNetChain need switches that reduce (SHARP), which "
                 "are not simulated; name Ring, Tree, NVLS, NVLSTree or PAT, or leave it out");
    return false;
  }
  read.p2p_disable = p2p != 0;
  read.ignore_disabled_p2p = ignore != 0;
  read.shm_disable = shm != 0;
  read.nvb_disable = nvb != 0;
  read.pxn_disable = pxn != 0;
  read.nvls_enable = nvls == 2 ? -1 : (int) nvls;
  read.cross_nic = (int) cross;
  read.ib_disable = ib != 0;
  read.min_channels = (int) min_channels;
  read.max_channels = (int) max_channels;
  read.min_ctas = (int) min_ctas;
  read.max_ctas = (int) max_ctas;
  read.max_p2p_channels = (int) p2p_channels;
  read.threads = (int) threads;
  read.socket_threads = (int) MAX (sockets, 1);
  read.runtime_connect = connect >= 0 ? connect != 0 : read.version >= ZS_VERSION (2, 22, 0);
  *ret = read;
  return true;
}
