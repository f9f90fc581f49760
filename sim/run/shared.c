/* shared.c: one plan for ranks that are run each by itself although their plans are equal.
 * SPDX-License-Identifier: MIT
 *
 * The plan is made once; a chunk is kept until the last rank has passed it.  Tables of a plan only
 * grow, so that a rank may see those of a later chunk.
 */
#include "config.h"

#include "sim/run/world.h"

typedef struct {
  ZsInstruction *code;
  int64_t  n_code;
  int32_t  readers;        /* that have not passed it */
} Chunk;

typedef struct Reader Reader;

typedef struct {
  ZsPlanSource source;
  GArray  *chunks;         /* Chunk, from the first on */
  GPtrArray *readers;      /* all that there are */
} Shared;

struct Reader {
  Shared  *shared;
  ZsPlan   view;
  guint    next;           /* chunk */
};

static void
make_chunk (Shared *shared, const ZsPlan *plan)
{
  Chunk chunk = { .n_code = plan->n_code, .readers = (int32_t) shared->readers->len };

  chunk.code = g_memdup2 (plan->code, (gsize) plan->n_code * sizeof *plan->code);
  g_array_append_val (shared->chunks, chunk);
  for (guint r = 0; r < shared->readers->len; r++) {   /* the tables may have moved */
    ZsPlan *view = &((Reader *) shared->readers->pdata[r])->view;
    ZsInstruction *code = view->code;
    int64_t n_code = view->n_code;

    *view = *plan;
    view->code = code;
    view->n_code = n_code;
  }
}

static void
pass_chunk (Reader *reader)
{
  Chunk *chunk = &g_array_index (reader->shared->chunks, Chunk, reader->next - 1);

  if (--chunk->readers > 0)
    return;
  g_free (chunk->code);
  chunk->code = NULL;
}

static const ZsPlan *
next_chunk (void *self)
{
  Reader *reader = self;
  Shared *shared = reader->shared;

  if (reader->next == shared->chunks->len) {
    const ZsPlan *plan = shared->source.next (shared->source.self);

    if (plan == NULL)
      return NULL;
    make_chunk (shared, plan);
  }
  if (reader->next > 0)
    pass_chunk (reader);
  const Chunk *chunk = &g_array_index (shared->chunks, Chunk, reader->next++);

  reader->view.code = chunk->code;
  reader->view.n_code = chunk->n_code;
  return &reader->view;
}

static void
free_reader (void *self)
{
  Reader *reader = self;
  Shared *shared = reader->shared;

  g_ptr_array_remove_fast (shared->readers, reader);
  g_free (reader);
  if (shared->readers->len > 0)
    return;
  for (guint c = 0; c < shared->chunks->len; c++)
    g_free (g_array_index (shared->chunks, Chunk, c).code);
  g_array_unref (shared->chunks);
  g_ptr_array_unref (shared->readers);
  if (shared->source.free != NULL)
    shared->source.free (shared->source.self);
  g_free (shared);
}

static double
model_flops (void *self, int first, int last)
{
  const ZsPlanSource *source = &((Reader *) self)->shared->source;

  return source->model_flops (source->self, first, last);
}

static double
hardware_flops (void *self, int first, int last)
{
  const ZsPlanSource *source = &((Reader *) self)->shared->source;

  return source->hardware_flops (source->self, first, last);
}

void
zs_shared_open (Run *run)
{
  const ZsWork *work = run->work;
  Shared *shared = g_new0 (Shared, 1);

  shared->source = work->open (work->self, 0);
  shared->chunks = g_array_new (FALSE, FALSE, sizeof (Chunk));
  shared->readers = g_ptr_array_new ();
  for (int32_t k = 0; k < run->n_ranks; k++) {
    Reader *reader = g_new0 (Reader, 1);

    reader->shared = shared;
    g_ptr_array_add (shared->readers, reader);
    run->ranks[k].source = (ZsPlanSource) {
      .self = reader, .next = next_chunk, .free = free_reader,
      .model_flops = shared->source.model_flops != NULL ? model_flops : NULL,
      .hardware_flops = shared->source.hardware_flops != NULL ? hardware_flops : NULL,
    };
  }
}
