/* page-pack.c: columns of integers as text.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/page-data.h"

#include <zlib.h>

void
zs_pack_unsigned (GByteArray *column, uint64_t value)
{
  guint n = column->len;

  g_byte_array_set_size (column, n + 10);   /* as many as there may be; it gives nothing back */
  for (; value >= 0x80; value >>= 7)
    column->data[n++] = (guint8) (value | 0x80);
  column->data[n++] = (guint8) value;
  column->len = n;
}

void
zs_pack_signed (GByteArray *column, int64_t value)
{
  zs_pack_unsigned (column, ((uint64_t) value << 1) ^ (uint64_t) (value >> 63));
}

char *
zs_pack_finish (GByteArray *const *columns, int n_columns, bool quick)
{
  g_autoptr (GByteArray) all = g_byte_array_new ();

  for (int c = 0; c < n_columns; c++) {
    zs_pack_unsigned (all, columns[c]->len);
    g_byte_array_append (all, columns[c]->data, columns[c]->len);
  }
  uLongf room = compressBound (all->len);
  g_autofree guint8 *packed = g_malloc (room);

  /* fails only where the room is too small */
  int status = compress2 (packed, &room, all->data, all->len, quick ? 1 : 6);

  g_assert (status == Z_OK);
  return g_base64_encode (packed, room);
}
