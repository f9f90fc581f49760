/* snapshot-reader.c: stub */
#include "config.h"
#include "sim/memory/history-private.h"
bool
history_read_snapshot (HistoryBuilder *builder, ZsHistory *history, const uint8_t *data,
                       gsize length, int gpu, GError **error)
{
  (void) history; (void) data; (void) length; (void) gpu;
  g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: snapshots cannot be read yet", builder->path);
  return false;
}
