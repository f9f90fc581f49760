/* scenario-lengths.c: `sequence_length`, `sequence_lengths` and what follows from them.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario-internal.h"

/* How much is simulated where lengths vary and nobody says how much: 400 micro-batches, but no fewer steps than 10.
 * Reserved bytes grow until the longest micro-batch has come: of eight orders of the samples of docs/lengths.md all had
 * come to the end by then. */
enum { MICRO_BATCHES = 400, LEAST_STEPS = 10, MOST_STEPS = 1000 };

static const char *const LONGER[] = { "cut", "drop", NULL };
static const char *const RANKS[] = { "same", "own", NULL };

typedef struct {
  int64_t mean, deviation, seed;
  int     longer, ranks;
} Drawn;

static const ZsField DRAWN_FIELDS[] = {
  { ZS_FIELD ("mean", INT, Drawn, mean), .min = 1, .max = 1 << 24, .required = true,
    .help = "tokens of a sample" },
  { ZS_FIELD ("deviation", INT, Drawn, deviation), .min = 0, .max = 1 << 24, .required = true,
    .help = "standard deviation" },
  { ZS_FIELD ("seed", INT, Drawn, seed), .min = 0, .max = INT64_C (1) << 53 },
  { ZS_FIELD ("longer", WORD, Drawn, longer), .words = LONGER,
    .help = "samples longer than sequence_length are cut, or dropped" },
  { ZS_FIELD ("ranks", WORD, Drawn, ranks), .words = RANKS,
    .help = "all ranks have the same lengths, or each its own: then each is simulated" },
};

/* A list; false if an error was added. */
static bool
read_list (ZsReader *reader, const ZsNode *node, int64_t **ret_list, int64_t *ret_longest)
{
  static const ZsField field = { .key = "sequence_lengths", .type = ZS_FIELD_INT, .min = 1, .max = 1 << 24 };
  g_autofree int64_t *list = g_new (int64_t, node->n_items + 1);
  bool ok = true;

  if (node->n_items == 0)
    return zs_node_fail (node, reader->errors, "'sequence_lengths' is an empty list");
  *ret_longest = 0;
  for (int i = 0; i < node->n_items; i++) {
    if (node->items[i]->kind != ZS_NODE_SCALAR)
      return zs_node_fail (node->items[i], reader->errors, "'sequence_lengths' must hold numbers of tokens, not %s",
                           zs_node_describe (node->items[i]));
    list[i] = 0;
    ok &= zs_schema_read_field (node->items[i], &field, &list[i], reader->errors);
    *ret_longest = MAX (*ret_longest, list[i]);
  }
  *ret_list = g_steal_pointer (&list);
  return ok;
}

/* Where nothing is said. */
static void
default_sequence (ZsReader *reader, int64_t longest, ZsTraining *training)
{
  int64_t usual = MIN (2048, MAX (1, training->shape.max_position));

  training->step.sequence = longest > 0 ? longest : usual;
  if (longest > 0) {
    zs_settings_put (reader->settings, "training.sequence_length", ZS_SETTING_DERIVED, "sequence_lengths",
                     "%" G_GINT64_FORMAT, longest);
    return;
  }
  zs_reader_default (reader, "training.sequence_length", "zerosim", "%" G_GINT64_FORMAT, usual);
  zs_notes_add (reader->notes, ZS_NOTE_INFO, "default-sequence", NULL,
                "no sequence length is given; %" G_GINT64_FORMAT " tokens are taken (`--seq`)", usual);
}

bool
zs_reader_sequence (ZsReader *reader, const ZsNode *sequence, const ZsNode *node, ZsTraining *training)
{
  ZsLengths *lengths = &training->lengths;
  const ZsNode *given[G_N_ELEMENTS (DRAWN_FIELDS)];
  int64_t *list = NULL, longest = 0;
  Drawn drawn = { .mean = 0 };

  if (node != NULL && node->kind == ZS_NODE_SEQUENCE) {
    if (!read_list (reader, node, &list, &longest))
      return false;
    *lengths = (ZsLengths) { .list = reader->scenario->lengths = list, .n_list = node->n_items };
  } else if (node != NULL && node->kind == ZS_NODE_MAPPING) {
    if (!zs_schema_read (node, "sequence_lengths", DRAWN_FIELDS, G_N_ELEMENTS (DRAWN_FIELDS), &drawn, given,
                         reader->errors))
      return false;
    zs_reader_record (reader, "training.sequence_lengths.", DRAWN_FIELDS, G_N_ELEMENTS (DRAWN_FIELDS), given);
    *lengths = (ZsLengths) { .mean = drawn.mean, .deviation = drawn.deviation, .seed = (uint64_t) drawn.seed,
                             .drop = drawn.longer == 1, .by_rank = drawn.ranks == 1 };
  } else if (node != NULL) {
    return zs_node_fail (node, reader->errors,
                         "'sequence_lengths' must be a list such as [512, 1024] or {mean: 900, deviation: 700}, "
                         "not %s", zs_node_describe (node));
  }
  if (sequence == NULL)
    default_sequence (reader, longest, training);
  else if (training->shape.max_position > 0 && training->step.sequence > training->shape.max_position)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "long-sequence", sequence,
                  "%" G_GINT64_FORMAT " tokens are more than the %" G_GINT64_FORMAT " that %s was made for",
                  training->step.sequence, training->shape.max_position, training->shape.name);
  return true;
}

/* All micro-batches are alike after all: as if their length alone had been given. */
static bool
is_even (const ZsTraining *training, int64_t multiple, int64_t *ret_sequence)
{
  const ZsLengths *lengths = &training->lengths;
  int64_t longest = training->step.sequence, length = lengths->n_list > 0 ? lengths->list[0] : lengths->mean;

  for (int i = 1; i < lengths->n_list; i++)
    if (MIN (lengths->list[i], longest) != MIN (length, longest))
      return false;
  if (lengths->n_list == 0 && lengths->deviation > 0)
    return false;
  *ret_sequence = (MIN (length, longest) + multiple - 1) / multiple * multiple;
  return true;
}

static void
note_lengths (ZsReader *reader, const ZsNode *node, const ZsTraining *training)
{
  const ZsLengths *lengths = &training->lengths;

  if (lengths->n_list > 0)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "lengths", node,
                  "all ranks have micro-batches of the same lengths, and the times of a step are means of all but "
                  "the first");
  else
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "lengths", node,
                  "lengths of samples are drawn (lognormal; seed %" G_GUINT64_FORMAT "), %s; longer ones are %s; "
                  "tokens/s counts no padding, and the times of a step are means of all but the first", lengths->seed,
                  lengths->by_rank ? "for each rank its own" : "the same for all ranks",
                  lengths->drop ? "dropped" : "cut");
}

bool
zs_reader_lengths (ZsReader *reader, const ZsLengthSettings *settings, ZsTraining *training)
{
  ZsLengths *lengths = &training->lengths;
  ZsStepShape *step = &training->step;
  int64_t multiple = settings->multiple != NULL ? settings->pad_to_multiple_of : 1, even;
  int accumulation = MAX (training->gradient_accumulation, 1);

  if (!zs_lengths_given (lengths)) {
    if (settings->multiple != NULL)
      zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", settings->multiple,
                    "`pad_to_multiple_of` has no effect without sequence_lengths: all samples are of one length");
    return true;
  }
  if (step->packed) {
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "lengths", settings->node,
                  "with packing all sequences are %" G_GINT64_FORMAT " tokens long: `sequence_lengths` has no effect",
                  step->sequence);
    *lengths = (ZsLengths) { .n_list = 0 };
    return true;
  }
  if (is_even (training, multiple, &even)) {
    step->sequence = even;
    *lengths = (ZsLengths) { .n_list = 0 };
    return true;
  }
  lengths->multiple = multiple;
  if (lengths->n_list > 0) {
    int64_t longest = 0;

    for (int i = 0; i < lengths->n_list; i++)
      longest = MAX (longest, lengths->list[i]);
    step->sequence = MIN (step->sequence, longest);
  }
  if (settings->mask == NULL && (step->micro_batch > 1 || multiple > 1)) {
    step->attention_mask = true;
    zs_reader_default (reader, "training.attention_mask", "collators that pad", "padding");
  }
  if (settings->inputs == NULL || !step->new_inputs) {
    if (settings->inputs != NULL)
      zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", settings->inputs,
                    "`new_inputs: false` has no effect with sequence_lengths");
    step->new_inputs = true;
    zs_reader_default (reader, "training.new_inputs", "sequence_lengths", "true");
  }
  if (settings->steps == NULL) {
    int64_t twice = (2 * (int64_t) lengths->n_list + accumulation - 1) / accumulation;
    int64_t usual = MAX (MICRO_BATCHES / accumulation, LEAST_STEPS);

    training->n_steps = (int) CLAMP (twice, usual, MOST_STEPS);
  }
  note_lengths (reader, settings->node, training);
  return true;
}
