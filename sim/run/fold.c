/* fold.c: ranks that cannot differ are run once.
 * SPDX-License-Identifier: MIT
 *
 * Two ranks cannot differ if their plans are equal and they have the same place in the machine:
 * what they use, who else uses it, and so on.  Places are found by refining colours (as in
 * 1-dimensional Weisfeiler-Leman): a resource is coloured by its capacity and by the colours of
 * those that use it, a rank by its plan, by the colours of what its copies, CPU work and NVMe
 * traffic use, and by the colours of its groups; repeated until no colour splits.  The partition
 * is then equitable: every rank of a colour sees as many ranks of each other colour on resources
 * of each colour.  So max-min shares are equal within a colour, and by induction over events
 * everything else is.
 *
 * Where all nodes are alike, all plans are equal and groups do not cross nodes but in the same places,
 * every node is the image of every other: then only the first one's ranks, groups and resources are
 * looked at, and 16,384 GPUs cost what eight do.
 *
 * One rank of a colour is run; its flows carry the weights of all.  tests/run holds folded against
 * unfolded runs, to the picosecond and the byte.
 *
 * More distinct plans than max_plans (ZeRO-1 and ZeRO-2 on many ranks, where each rank owns other
 * tensors): the plans of rank 0, of the last rank, of the ranks with the most and the least memory
 * of their own (plan_size) and of ranks spread evenly between are run; every other rank counts as
 * the nearest of these with a lower number.  Times are then those of the chosen ranks (every rank
 * takes part in the same collectives with the same sizes; what differs is which gradients are
 * copied).  The worst peak is that of the chosen ranks: a rank that is not run can only exceed it
 * if it has less memory of its own and still a higher peak.
 */
#include "config.h"

#include "sim/run/world.h"

#include <string.h>

static uint64_t
mix (uint64_t a, uint64_t b)
{
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;

  x ^= x >> 29;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 32;
}

/* What rank R's whole plan says. */
static uint64_t
plan_hash (const ZsWork *work, int64_t r)
{
  ZsPlanSource source = work->open (work->self, r);
  uint64_t hash = 1;
  uint32_t n_kernels = 0;

  for (const ZsPlan *plan; (plan = source.next (source.self)) != NULL;) {
    for (int64_t i = 0; i < plan->n_code; i++) {
      uint64_t words[3];

      G_STATIC_ASSERT (sizeof words == sizeof (ZsInstruction));
      memcpy (words, &plan->code[i], sizeof words);
      words[2] = mix (words[2], 7);
      hash = mix (hash, words[0]) + mix (words[1], words[2]);
    }
    for (; n_kernels < plan->n_kernels; n_kernels++) {
      const ZsKernel *kernel = &plan->kernels[n_kernels];

      hash = mix (hash, (uint64_t) kernel->kind << 32 | (uint64_t) kernel->form << 24
                          | (uint64_t) kernel->launch << 16 | kernel->element_bytes);
      hash = mix (hash, (uint64_t) kernel->m);
      hash = mix (hash, (uint64_t) kernel->n);
      hash = mix (hash, (uint64_t) kernel->k);
      hash = mix (hash, (uint64_t) kernel->bytes);
    }
  }
  if (source.free != NULL)
    source.free (source.self);
  return hash;
}

/* Plans of RANKS as dense numbers; returns how many. */
static int64_t
number_plans (const Run *run, int64_t n, int64_t *plans)
{
  const ZsWork *work = run->work;
  g_autoptr (GHashTable) numbers = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free,
                                                          NULL);

  for (int64_t r = 0; r < n; r++) {
    int64_t key = work->plan_key != NULL ? work->plan_key (work->self, r)
                                         : (int64_t) plan_hash (work, r);
    gpointer found = g_hash_table_lookup (numbers, &key);

    if (found == NULL) {
      found = GSIZE_TO_POINTER (g_hash_table_size (numbers) + 1);
      g_hash_table_insert (numbers, g_memdup2 (&key, sizeof key), found);
    }
    plans[r] = (int64_t) GPOINTER_TO_SIZE (found) - 1;
  }
  return g_hash_table_size (numbers);
}

/* Keep at most MOST plans; see above. */
static int64_t
choose_plans (const Run *run, int64_t n, int64_t *plans, int64_t n_plans, int64_t most)
{
  const ZsWork *work = run->work;
  g_autofree bool *kept = g_new0 (bool, n);
  int64_t largest = 0, smallest = 0, n_kept = 0, now = 0;

  if (n_plans <= most)
    return n_plans;
  if (work->plan_size != NULL)
    for (int64_t r = 1; r < n; r++) {
      if (work->plan_size (work->self, r) > work->plan_size (work->self, largest))
        largest = r;
      if (work->plan_size (work->self, r) < work->plan_size (work->self, smallest))
        smallest = r;
    }
  kept[0] = kept[n - 1] = kept[largest] = kept[smallest] = true;
  for (int64_t k = 1; k < most - 3; k++)
    kept[k * n / (most - 3)] = true;
  for (int64_t r = 0; r < n; r++) {
    if (kept[r])
      now = n_kept++;
    plans[r] = now;
  }
  return n_kept;
}

/* ---- places ---- */

typedef struct {
  int32_t resource, weight;
  int64_t rank;            /* -1: a collective of all */
  uint64_t what;
} Use;

static void
add_uses (GArray *uses, const ZsTransfer *transfer, int64_t rank, uint64_t what)
{
  for (guint s = 0; s < transfer->shares->len; s++) {
    const ZsShare *share = &g_array_index (transfer->shares, ZsShare, s);
    Use use = { .resource = share->resource, .weight = share->weight, .rank = rank, .what = what };

    g_array_append_val (uses, use);
  }
}

static int64_t
group_of (const Run *run, ZsCommunicator communicator, int64_t r)
{
  int64_t size = run->work->group_ranks;

  return communicator == ZS_COMMUNICATOR_GROUP ? r / size
         : communicator == ZS_COMMUNICATOR_ACROSS ? r % size : 0;
}

static int64_t
n_groups (const Run *run, ZsCommunicator communicator)
{
  int64_t size = run->work->group_ranks, n = run->folded_ranks;

  return communicator == ZS_COMMUNICATOR_GROUP ? (n + size - 1) / size
         : communicator == ZS_COMMUNICATOR_ACROSS ? MIN (size, n) : 1;
}

static bool
is_used (const Run *run, ZsCommunicator communicator)
{
  return communicator < ZS_COMMUNICATOR_GROUP || run->work->group_ranks > 0;
}

/* What ranks use by themselves and together, for one typical size of each. */
static void
find_uses (Run *run, GArray *uses, uint64_t *colours)
{
  const ZsMachine *machine = run->machine;
  const int64_t size = INT64_C (1) << 26;

  for (int64_t r = 0; r < run->folded_ranks; r++)
    for (uint64_t what = 0; what < 5; what++) {
      ZsTransfer transfer = { .shares = run->shares, .first_node = run->one_node };

      g_array_set_size (run->shares, 0);
      if (what < 2 && machine->copy != NULL)
        machine->copy (machine->self, r, (ZsCopyKind) what, size, true, &transfer);
      else if (what == 2 && machine->cpu_task != NULL)
        machine->cpu_task (machine->self, r, ZS_CPU_ADAM, size, &transfer);
      else if (what > 2 && machine->nvme != NULL)
        machine->nvme (machine->self, r, (ZsNvmeKind) (what - 3), size, &transfer);
      else
        continue;
      colours[r] = mix (mix (colours[r], (uint64_t) transfer.latency),
                        (uint64_t) transfer.transfer);
      add_uses (uses, &transfer, r, what);
    }
  if (machine->collective == NULL)
    return;
  for (ZsCommunicator c = 0; c < ZS_N_COMMUNICATORS; c++) {
    if (!is_used (run, c) || c == ZS_COMMUNICATOR_CLONE)
      continue;
    for (int64_t g = 0; g < n_groups (run, c); g++)
      for (uint64_t what = 0; what < 2 * ZS_COLLECTIVE_ALL_TO_ALL; what++) {
        ZsTransfer transfer = { .shares = run->shares, .first_node = run->one_node };

        g_array_set_size (run->shares, 0);
        machine->collective (machine->self, c, g, (ZsCollectiveKind) (what / 2),
                             what % 2 == 0 ? size : size >> 10, &transfer);
        /* all members start together: who they are is in the ranks' colours */
        add_uses (uses, &transfer, -1, mix (0x10000 + what, (uint64_t) c));
        if (c != ZS_COMMUNICATOR_WORLD)
          for (int64_t r = 0; r < run->folded_ranks; r++)
            if (group_of (run, c, r) == g)
              colours[r] = mix (mix (colours[r], (uint64_t) transfer.latency),
                                (uint64_t) transfer.transfer);
      }
  }
}

static int
by_value (const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

static int64_t
n_distinct (const uint64_t *colours, int64_t n)
{
  g_autofree uint64_t *sorted = g_memdup2 (colours, (size_t) n * sizeof *colours);
  int64_t distinct = n > 0;

  qsort (sorted, (size_t) n, sizeof *sorted, by_value);
  for (int64_t r = 1; r < n; r++)
    distinct += sorted[r] != sorted[r - 1];
  return distinct;
}

static void
refine (Run *run, uint64_t *colours)
{
  const ZsMachine *machine = run->machine;
  int64_t n = run->folded_ranks, before = -1, now;
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (Use));
  g_autofree uint64_t *resources = g_new0 (uint64_t, run->n_resources + 1);
  g_autofree uint64_t *next_resources = g_new0 (uint64_t, run->n_resources + 1);
  g_autofree uint64_t *next = g_new0 (uint64_t, n);

  find_uses (run, uses, colours);
  for (int32_t s = 0; s < run->n_resources; s++)
    resources[s] = mix (3, (uint64_t) machine->capacities[s]);
  /* sums of mixed hashes: the order of users does not matter */
  while ((now = n_distinct (colours, n) + n_distinct (resources, run->n_resources))
         != before) {
    before = now;
    for (int32_t s = 0; s < run->n_resources; s++)
      next_resources[s] = mix (resources[s], 5);
    for (int64_t r = 0; r < n; r++)
      next[r] = mix (colours[r], 11);
    for (guint u = 0; u < uses->len; u++) {
      const Use *use = &g_array_index (uses, Use, u);
      uint64_t what = mix (use->what, (uint64_t) use->weight);

      next_resources[use->resource] += mix (what, use->rank >= 0 ? colours[use->rank] : 13);
      if (use->rank >= 0)
        next[use->rank] += mix (what, resources[use->resource]);
    }
    for (ZsCommunicator c = ZS_COMMUNICATOR_GROUP; c < ZS_N_COMMUNICATORS; c++) {
      if (!is_used (run, c))
        continue;
      g_autofree uint64_t *groups = g_new0 (uint64_t, n_groups (run, c));

      for (int64_t r = 0; r < n; r++)
        groups[group_of (run, c, r)] += mix (colours[r], 17);
      for (int64_t r = 0; r < n; r++)
        next[r] = mix (next[r], groups[group_of (run, c, r)]);
    }
    memcpy (resources, next_resources, (size_t) run->n_resources * sizeof *resources);
    memcpy (colours, next, (size_t) n * sizeof *next);
  }
}

/* ---- ranks and instances ---- */

static void
make_instances (Run *run, const int32_t *class_of)
{
  int64_t n = run->folded_ranks;
  GArray *instances = g_array_new (FALSE, TRUE, sizeof (Instance));

  for (ZsCommunicator c = 0; c < ZS_N_COMMUNICATORS; c++) {
    if (!is_used (run, c))
      continue;
    /* groups with the same classes are one instance: a class is in groups of one kind only */
    int64_t count = n_groups (run, c);
    guint first = instances->len;

    for (int64_t g = 0; g < count; g++) {
      Instance *instance = NULL;
      int64_t some = -1;

      for (int64_t r = 0; r < n && some < 0; r++)
        if (group_of (run, c, r) == g)
          some = r;
      for (guint i = first; i < instances->len && instance == NULL; i++) {
        Instance *candidate = &g_array_index (instances, Instance, i);

        for (int32_t k = 0; k < candidate->gate.needed; k++)
          if (candidate->ranks[k] == class_of[some])
            instance = candidate;
      }
      if (instance == NULL) {
        g_array_set_size (instances, instances->len + 1);
        instance = &g_array_index (instances, Instance, instances->len - 1);
        instance->communicator = c;
        for (int64_t r = 0; r < n; r++) {
          int32_t class = class_of[r];
          bool known = group_of (run, c, r) != g;

          for (int32_t k = 0; k < instance->gate.needed && !known; k++)
            known = instance->ranks[k] == class;
          if (known)
            continue;
          instance->ranks = g_renew (int32_t, instance->ranks, instance->gate.needed + 1);
          instance->ranks[instance->gate.needed++] = class;
          run->ranks[class].instances[c] = (int32_t) instances->len - 1;
        }
      }
      instance->groups = g_renew (int64_t, instance->groups, instance->n_groups + 1);
      instance->groups[instance->n_groups++] = g;
    }
  }
  run->n_instances = (int32_t) instances->len;
  run->instances = (Instance *) g_array_free (instances, FALSE);
}

void
zs_fold_init (Run *run)
{
  const ZsMachine *machine = run->machine;
  const ZsRunOptions *options = run->options;
  int64_t size = run->work->group_ranks, of_node = machine->node_ranks;

  run->one_node = machine->node_resources > 0 && run->work->one_plan && !options->no_folding
                  && !options->alone && !options->want_link_points && of_node < machine->n_ranks
                  && (size == 0 || of_node % size == 0);
  run->folded_ranks = run->one_node ? of_node : machine->n_ranks;
  run->n_resources = run->one_node ? machine->node_resources : machine->n_resources;
}

void
zs_fold_ranks (Run *run)
{
  int64_t n = run->folded_ranks, n_plans = n;
  g_autofree int64_t *plans = g_new0 (int64_t, n);
  g_autofree uint64_t *colours = g_new0 (uint64_t, n);
  g_autofree int32_t *class_of = g_new0 (int32_t, n);

  if (run->options->alone) {
    run->ranks = g_new0 (Rank, 1);
    run->n_ranks = run->n_plans = 1;
    run->ranks[0].rank = MAX (0, run->options->report_rank);
    run->ranks[0].members = g_memdup2 (&run->ranks[0].rank, sizeof (int64_t));
    run->ranks[0].n_members = 1;
    make_instances (run, class_of);
    return;
  }
  if (run->options->no_folding) {
    for (int64_t r = 0; r < n; r++)
      plans[r] = r;
  } else if (run->work->one_plan) {
    n_plans = 1;
  } else if (n > 1) {
    n_plans = number_plans (run, n, plans);
    n_plans = choose_plans (run, n, plans, n_plans,
                            run->options->max_plans > 0 ? MAX (run->options->max_plans, 4) : 16);
  }
  run->n_plans = n_plans;
  for (int64_t r = 0; r < n; r++)
    colours[r] = mix (19, (uint64_t) plans[r]);
  if (!run->options->no_folding && n > 1)
    refine (run, colours);

  run->ranks = g_new0 (Rank, n);
  for (int64_t r = 0; r < n; r++) {
    int32_t class = -1;

    for (int32_t k = 0; k < run->n_ranks && class < 0; k++)
      if (colours[run->ranks[k].rank] == colours[r])
        class = k;
    if (class < 0) {
      class = run->n_ranks++;
      run->ranks[class].rank = r;
    }
    Rank *rank = &run->ranks[class];

    if ((rank->n_members & (rank->n_members - 1)) == 0)   /* full: 0, 1, 2, 4 ... */
      rank->members = g_renew (int64_t, rank->members, MAX (1, rank->n_members * 2));
    rank->members[rank->n_members++] = r;
    class_of[r] = class;
  }
  make_instances (run, class_of);
}
