/* nccl-messages.c: how many messages NCCL's proxy threads pass between nodes.
 * SPDX-License-Identifier: MIT
 *
 * Between nodes a channel does not stream: the thread block fills one slot of a buffer of eight, and the proxy thread of
 * its GPU sends the slot as one message.  How many there are follows from NCCL's chunks alone (2.21 to 2.30
 * src/enqueue.cc, calcCollChunking; src/device/prims_simple.h):
 *   ring        each of the n-1 (all-reduce 2(n-1)) steps of a channel passes one chunk, a share 1/n of the channel's
 *               bytes, in as many loops as chunks of the greatest size need; LL: 32 KiB of data, LL128: 562 KiB or as
 *               below, Simple: four slots (2 MiB), in two slices, each a message, the second sent even when it is empty;
 *   broadcast,  Simple: slots of 512 KiB;
 *   reduce
 *   tree        chunks go up and come down; the chunk is halved until there are enough of them to fill the tree.
 * Channels of one GPU share its proxy thread. */
#include "config.h"

#include "sim/network/nccl-comm.h"

#include <math.h>

/* Data of one slot: an eighth of the buffer, less the flags. */
static double
slot_data (const ZsComm *comm, ZsProtocol protocol)
{
  switch (protocol) {
  case ZS_PROTOCOL_LL:
    return 32768;                       /* 512 KiB of buffer, half of it flags */
  case ZS_PROTOCOL_LL128:
    return 4915200 / 8 * 15 / 16;       /* 4800 KiB, 15 words of 16 */
  default:
    return (double) comm->environment.buffer_bytes / 8;
  }
}

/* Messages of one channel that has BYTES, over one connection in one direction, and the data of each. */
static double
of_channel (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol, double bytes,
            double *ret_data)
{
  int n = comm->n_ranks, ppn = n / comm->n_nodes;
  double chunk = slot_data (comm, protocol);

  if (protocol == ZS_PROTOCOL_LL128) {
    double steps = 1 + floor (log2 (comm->n_nodes)) + 0.1 * ppn;

    while (bytes / chunk < steps * 64 / ppn && chunk > 131072)
      chunk /= 2;
    while (bytes / chunk < steps * 16 / ppn && chunk > 32768)
      chunk /= 2;
  }
  if (algorithm == ZS_ALGORITHM_TREE) {
    double depth = ppn - 1 + floor (log2 (comm->n_nodes));

    for (int round = 0; protocol == ZS_PROTOCOL_SIMPLE && round < 3; round++)
      while (bytes / chunk < depth * (round == 0 ? 8 : round == 1 ? 4 : 1) && chunk > 131072 >> round)
        chunk /= 2;
    /* up to the parent and down to two children, in a pair of trees where each node is a leaf of one */
    *ret_data = bytes / ceil (bytes / chunk);
    return 2 * (comm->n_nodes - 1.0) / comm->n_nodes * ceil (bytes / chunk);
  }
  if (kind == ZS_COLLECTIVE_BROADCAST || kind == ZS_COLLECTIVE_REDUCE) {
    *ret_data = bytes / ceil (bytes / chunk);
    return ceil (bytes / chunk);
  }
  int slices = protocol == ZS_PROTOCOL_SIMPLE ? 2 : 1;

  if (protocol == ZS_PROTOCOL_SIMPLE)
    chunk *= 4;
  double loops = ceil (bytes / (n * chunk));

  *ret_data = bytes / (n * loops * slices);
  return (kind == ZS_COLLECTIVE_ALL_REDUCE ? 2 : 1) * (n - 1.0) * slices * loops;
}

double
zs_nccl_messages (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol, int64_t bytes,
                  double *ret_message)
{
  bool ring = algorithm == ZS_ALGORITHM_RING;
  int channels, threads, most = 0;
  double data = 0;

  *ret_message = 0;
  if (comm->n_nodes < 2 || (!ring && algorithm != ZS_ALGORITHM_TREE))
    return 0;
  zs_nccl_launch (&comm->input, algorithm, protocol, bytes, &channels, &threads);
  for (int s = 0; s < comm->n_shapes; s++) {
    const ZsNodeShape *shape = &comm->shapes[s];
    const ZsNcclGraph *graph = ring ? &shape->graphs.ring : &shape->graphs.tree;
    int found = MAX (1, MIN (graph->n_channels, comm->graphs.ring.n_channels));
    int out[ZS_NCCL_MAX_GPUS] = { 0 }, in[ZS_NCCL_MAX_GPUS] = { 0 };

    for (int c = 0; c < channels; c++) {
      const int8_t *order = graph->intra[c % found];
      int last = ring ? order[shape->n_gpus - 1] : order[0];

      out[last]++;
      in[order[0]]++;
      most = MAX (most, MAX (out[last], in[order[0]]));
    }
  }
  double n = most * of_channel (comm, kind, algorithm, protocol, (double) bytes / channels, &data);

  *ret_message = data * (protocol == ZS_PROTOCOL_LL ? 2 : protocol == ZS_PROTOCOL_LL128 ? 128 / 120.0 : 1);
  return n;
}
