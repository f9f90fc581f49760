/* scenario-import-lengths.c: what files of transformers, TRL and LLaMA-Factory say about lengths of samples.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario-import.h"

/* TRL's `packing` (its strategy "bfd") and LLaMA-Factory's `neat_packing` tell joined samples apart by their
 * positions; LLaMA-Factory's `packing` alone only joins them (data/processor/supervised.py). */
static bool
import_packing (ZsReader *reader, const ZsNode *root)
{
  ZsNode *packing = zs_node_get (root, "packing"), *neat = zs_node_get (root, "neat_packing");
  bool joins = false, apart = false, factory = zs_node_get (root, "cutoff_len") != NULL;

  if (!(zs_import_switch (reader, root, "packing", &joins) & zs_import_switch (reader, root, "neat_packing", &apart)))
    return false;
  if (apart || (joins && !factory))
    return zs_reader_put_default (reader, "training.packing", zs_import_at (reader, apart ? neat : packing, "true"));
  if (joins)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "packing", packing,
                  "LLaMA-Factory's packing joins samples to sequences of cutoff_len tokens, which see one another: all "
                  "are of one length");
  return true;
}

bool
zs_import_lengths (ZsReader *reader, const ZsNode *root)
{
  static const ZsImportKey rows[] = { { "pad_to_multiple_of", "training.pad_to_multiple_of" } };
  bool grouped = false, ok = import_packing (reader, root);

  if (zs_reader_find (reader, "training.sequence_lengths") != NULL)
    ok &= zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows));
  ok &= zs_import_switch (reader, root, "group_by_length", &grouped);
  if (grouped)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "group-by-length", zs_node_get (root, "group_by_length"),
                  "group_by_length makes batches of samples of like lengths, the longest in the first: less padding than "
                  "in those that sequence_lengths draws");
  return ok;
}
