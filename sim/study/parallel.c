/* parallel.c: a pool of threads that take the next number.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/parallel.h"

#define TICK (G_USEC_PER_SEC / 5)
#define MAX_JOBS 1024

typedef struct {
  const ZsParallel *parallel;
  GAsyncQueue *results;
  GMutex   lock;
  int64_t  next, n;        /* under lock */
  bool     stopped;
} Work;

static bool
take (Work *work, int64_t *ret_index)
{
  const int *stop = work->parallel->stop;
  bool taken;

  g_mutex_lock (&work->lock);
  taken = work->next < work->n && !work->stopped && (stop == NULL || g_atomic_int_get (stop) == 0);
  if (taken)
    *ret_index = work->next++;
  g_mutex_unlock (&work->lock);
  return taken;
}

/* One thread's share; the address of WORK itself says that it has ended. */
static void
run_worker (gpointer data, gpointer user_data)
{
  Work *work = user_data;
  int64_t index;

  (void) data;
  while (take (work, &index))
    g_async_queue_push (work->results, work->parallel->task (work->parallel->self, index));
  g_async_queue_push (work->results, work);
}

bool
zs_parallel_run (const ZsParallel *parallel, int64_t n, int jobs)
{
  Work work = { .parallel = parallel, .results = g_async_queue_new (), .n = n };
  int n_workers = (int) CLAMP (jobs > 0 ? jobs : (int) g_get_num_processors (), 1,
                               MIN (MAX (n, 1), MAX_JOBS));
  GThreadPool *pool = g_thread_pool_new (run_worker, &work, n_workers, TRUE, NULL);
  int64_t n_done = 0;

  g_mutex_init (&work.lock);
  for (int i = 0; i < n_workers; i++)
    g_thread_pool_push (pool, GINT_TO_POINTER (i + 1), NULL);
  for (int left = n_workers; left > 0;) {
    gpointer result = g_async_queue_timeout_pop (work.results, TICK);

    if (result == &work) {
      left--;
      continue;
    }
    n_done += result != NULL;
    if (!parallel->done (parallel->self, result)) {
      g_mutex_lock (&work.lock);
      work.stopped = true;
      g_mutex_unlock (&work.lock);
    }
  }
  g_thread_pool_free (pool, FALSE, TRUE);
  g_mutex_clear (&work.lock);
  g_async_queue_unref (work.results);
  return n_done == n;
}
