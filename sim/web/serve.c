/* serve.c: answers the live page's requests.
 * SPDX-License-Identifier: MIT
 *
 * What a client can cost is bounded: connections and their buffers (libmicrohttpd), simulations at once
 * (one in each of a few threads), simulations a second (a bucket of tokens), answers that are under way,
 * and instructions of one simulation. Beyond a bound the answer is 503; the page tries again. */
#include "config.h"

#include "sim/web/serve.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/scenario/simulate.h"
#include "sim/web/controls.h"
#include "sim/web/page.h"
#include "sim/web/tree.h"

#define N_THREADS         4
#define MAX_CONNECTIONS   1200        /* a class of clients that reload at once */
#define CONNECTION_BYTES  16384       /* request line and headers must fit */
#define IDLE_SECONDS      20
#define MAX_QUERY         32          /* parameters */
#define RATE              60          /* simulations a second, on average */
#define BURST             120
#define MAX_UNDER_WAY     64          /* answers of their own that clients have not taken yet */
#define N_CACHED          16
#define MAX_INSTRUCTIONS  INT64_C (60000000)
#define MAX_SPANS         12000       /* drawn on one screen: more cannot be told apart */

typedef struct {
  char                *key;           /* path and query; NULL: empty */
  struct MHD_Response *response;
  uint64_t             used;
} Cached;

struct ZsServer {
  const ZsServeOptions *options;
  ZsControls        *controls;
  char              *title;
  struct MHD_Daemon *daemon;
  int                port;
  GMutex             lock;            /* of what follows */
  Cached             cached[N_CACHED];
  uint64_t           clock;
  double             tokens;
  gint64             filled;          /* monotonic microseconds */
  int                under_way;
};

/* What is kept of one request until it is completed. */
typedef struct {
  bool counted;
} Request;

/* ---- answers ---- */

static struct MHD_Response *
make_response (const char *type, GString *body)
{
  gsize length = body->len;
  char *text = g_string_free (body, FALSE);
  struct MHD_Response *response
      = MHD_create_response_from_buffer_with_free_callback (length, text, g_free);

  MHD_add_response_header (response, "Content-Type", type);
  MHD_add_response_header (response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header (response, "Referrer-Policy", "no-referrer");
  MHD_add_response_header (response, "Cache-Control", "no-store");
  MHD_add_response_header (response, "Content-Security-Policy",
                           "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                           "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'");
  return response;
}

static enum MHD_Result
answer (struct MHD_Connection *connection, unsigned int status, const char *type, GString *body)
{
  struct MHD_Response *response = make_response (type, body);

  if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
    MHD_add_response_header (response, "Retry-After", "1");
  enum MHD_Result result = MHD_queue_response (connection, status, response);

  MHD_destroy_response (response);
  return result;
}

static GString *
error_body (const char *text)
{
  GString *body = g_string_new (NULL);
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new (body, 0);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "error", text);
  zs_json_end_object (writer);
  return body;
}

static enum MHD_Result
refuse (struct MHD_Connection *connection, unsigned int status, const char *text)
{
  return answer (connection, status, "application/json", error_body (text));
}

/* ---- bounds ---- */

/* The answer to KEY from the cache, with a reference of MHD's own once it is queued; NULL: none. */
static struct MHD_Response *
find_cached (ZsServer *server, const char *key)
{
  for (int i = 0; i < N_CACHED; i++)
    if (server->cached[i].key != NULL && strcmp (server->cached[i].key, key) == 0) {
      server->cached[i].used = ++server->clock;
      return server->cached[i].response;
    }
  return NULL;
}

/* Takes RESPONSE. */
static void
keep_cached (ZsServer *server, const char *key, struct MHD_Response *response)
{
  Cached *oldest = &server->cached[0];

  for (int i = 1; i < N_CACHED; i++)
    if (server->cached[i].used < oldest->used)
      oldest = &server->cached[i];
  if (oldest->response != NULL)
    MHD_destroy_response (oldest->response);
  g_free (oldest->key);
  *oldest = (Cached) { .key = g_strdup (key), .response = response, .used = ++server->clock };
}

/* May one more simulation begin?  Its answer counts until the client has taken it. */
static bool
admit (ZsServer *server)
{
  gint64 now = g_get_monotonic_time ();

  server->tokens = MIN (BURST, server->tokens + (double) (now - server->filled) * 1e-6 * RATE);
  server->filled = now;
  if (server->tokens < 1 || server->under_way >= MAX_UNDER_WAY)
    return false;
  server->tokens -= 1;
  server->under_way++;
  return true;
}

/* ---- states ---- */

typedef struct {
  const ZsServer *server;
  GPtrArray      *sets;      /* those of the command line, then the request's */
  GString        *key;
  int             n;
  bool            bad;
} State;

static enum MHD_Result
add_parameter (void *self, enum MHD_ValueKind kind G_GNUC_UNUSED, const char *name, const char *value)
{
  State *state = self;
  char *set = value != NULL && state->n < MAX_QUERY
                ? zs_controls_set (state->server->controls, name, value) : NULL;

  state->n++;
  if (set == NULL) {
    state->bad = true;
    return MHD_NO;
  }
  g_string_append_printf (state->key, "&%s", set);
  g_ptr_array_add (state->sets, set);
  return MHD_YES;
}

static void
state_init (State *state, const ZsServer *server, struct MHD_Connection *connection, const char *path)
{
  *state = (State) { .server = server, .sets = g_ptr_array_new_with_free_func (g_free),
                     .key = g_string_new (path) };
  for (const char *const *set = server->options->sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (state->sets, g_strdup (*set));
  MHD_get_connection_values (connection, MHD_GET_ARGUMENT_KIND, add_parameter, state);
  g_ptr_array_add (state->sets, NULL);
}

static void
state_clear (State *state)
{
  g_ptr_array_unref (state->sets);
  g_string_free (state->key, TRUE);
}

static ZsScenario *
load (const State *state, char **ret_errors)
{
  const ZsServeOptions *options = state->server->options;
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsScenario *scenario = zs_scenario_load (options->path, options->flags,
                                           (const char *const *) state->sets->pdata,
                                           options->catalogue, errors);

  if (scenario == NULL)
    *ret_errors = zs_errors_text (errors);
  return scenario;
}

/* The page's data for SCENARIO; NULL and a text if it cannot be simulated. */
static GString *
simulate (const ZsServer *server, const ZsScenario *scenario, bool with_controls, char **ret_error)
{
  g_autoptr (GError) error = NULL;
  ZsRunOptions run;

  zs_scenario_run_options (scenario, &run);
  run.want_links = run.want_link_points = run.want_spans = run.want_memory_events = true;
  run.max_instructions = MAX_INSTRUCTIONS;
  run.max_plans = 4;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, &run, &error);

  if (result == NULL) {
    *ret_error = g_strdup (error->message);
    return NULL;
  }
  ZsPageScenario page = { .scenario = scenario, .result = result, .max_spans = MAX_SPANS,
                          .quick = true };
  GString *data = g_string_new (NULL);
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new (data, 0);

  zs_json_begin_object (writer, NULL);
  zs_json_begin_array (writer, "scenarios");
  zs_json_begin_object (writer, NULL);
  zs_page_write_scenario (&page, writer);
  zs_json_end_object (writer);
  zs_json_end_array (writer);
  if (with_controls)
    zs_controls_write (server->controls, "controls", writer);
  zs_json_end_object (writer);
  return data;
}

/* ---- paths ---- */

/* The body for PATH; NULL and an error of the state. */
static GString *
make_body (const ZsServer *server, const char *path, const ZsScenario *scenario, char **ret_error)
{
  if (g_str_equal (path, "/run"))
    return simulate (server, scenario, false, ret_error);
  if (g_str_equal (path, "/scenario.yaml")) {
    GString *text = g_string_new ("# from zerosim serve\n");

    zs_tree_write_yaml (zs_document_root (scenario->document), text);
    return text;
  }
  if (g_str_equal (path, "/ds_config.json")) {
    const ZsNode *config
        = zs_node_get (zs_node_get (zs_document_root (scenario->document), "training"), "deepspeed");

    if (config == NULL) {
      *ret_error = g_strdup ("this scenario has no ds_config");
      return NULL;
    }
    GString *text = g_string_new (NULL);
    g_autoptr (ZsJsonWriter) writer = zs_json_writer_new (text, 2);

    zs_tree_write_json (config, NULL, writer);
    return text;
  }
  GString *data = simulate (server, scenario, true, ret_error);

  if (data == NULL)
    return NULL;
  GString *html = g_string_new (NULL);

  zs_page_write_around (server->title, data->str, html);
  g_string_free (data, TRUE);
  return html;
}

static const char *
type_of (const char *path)
{
  return g_str_equal (path, "/") ? "text/html; charset=utf-8"
         : g_str_has_suffix (path, ".yaml") ? "text/yaml; charset=utf-8" : "application/json";
}

static enum MHD_Result
answer_state (ZsServer *server, struct MHD_Connection *connection, const char *path, Request *request)
{
  g_autofree char *problem = NULL;
  enum MHD_Result result;
  State state;

  state_init (&state, server, connection, path);
  if (state.bad) {
    state_clear (&state);
    return refuse (connection, MHD_HTTP_BAD_REQUEST, "no such control or value");
  }
  g_mutex_lock (&server->lock);
  struct MHD_Response *cached = find_cached (server, state.key->str);

  if (cached != NULL)
    result = MHD_queue_response (connection, MHD_HTTP_OK, cached);
  else
    request->counted = admit (server);
  g_mutex_unlock (&server->lock);
  if (cached == NULL && !request->counted) {
    state_clear (&state);
    return refuse (connection, MHD_HTTP_SERVICE_UNAVAILABLE, "busy: try again in a second");
  }
  if (cached == NULL) {
    g_autoptr (ZsScenario) scenario = load (&state, &problem);
    GString *body = scenario != NULL ? make_body (server, path, scenario, &problem) : NULL;

    if (body == NULL) {
      result = refuse (connection, MHD_HTTP_UNPROCESSABLE_CONTENT, problem);
    } else {
      struct MHD_Response *response = make_response (type_of (path), body);

      result = MHD_queue_response (connection, MHD_HTTP_OK, response);
      g_mutex_lock (&server->lock);
      keep_cached (server, state.key->str, response);
      g_mutex_unlock (&server->lock);
    }
  }
  state_clear (&state);
  return result;
}

/* Does the request name this machine?  A browser that was led here by another name does not. */
static bool
names_us (const ZsServer *server, struct MHD_Connection *connection)
{
  const char *host = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Host");
  const char *const names[] = { "127.0.0.1", "localhost" };

  for (size_t i = 0; host != NULL && i < G_N_ELEMENTS (names); i++) {
    g_autofree char *full = g_strdup_printf ("%s:%d", names[i], server->port);

    if (g_ascii_strcasecmp (host, full) == 0 || g_ascii_strcasecmp (host, names[i]) == 0)
      return true;
  }
  return false;
}

static enum MHD_Result
handle (void *self, struct MHD_Connection *connection, const char *path, const char *method,
        const char *version G_GNUC_UNUSED, const char *upload G_GNUC_UNUSED, size_t *upload_size,
        void **kept)
{
  static const char *const PATHS[] = { "/", "/run", "/scenario.yaml", "/ds_config.json", NULL };
  ZsServer *server = self;

  if (*kept == NULL) {          /* headers only; the answer comes with the next call */
    *kept = g_new0 (Request, 1);
    return MHD_YES;
  }
  if (*upload_size > 0) {       /* a body is of no interest: read and forgotten */
    *upload_size = 0;
    return MHD_YES;
  }
  if (!g_str_equal (method, "GET") && !g_str_equal (method, "HEAD"))
    return refuse (connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET");
  if (!names_us (server, connection))
    return refuse (connection, MHD_HTTP_FORBIDDEN, "this serves 127.0.0.1 alone");
  if (!g_strv_contains (PATHS, path))
    return refuse (connection, MHD_HTTP_NOT_FOUND, "there is no such page");
  return answer_state (server, connection, path, *kept);
}

static void
completed (void *self, struct MHD_Connection *connection G_GNUC_UNUSED, void **kept,
           enum MHD_RequestTerminationCode code G_GNUC_UNUSED)
{
  ZsServer *server = self;
  Request *request = *kept;

  if (request == NULL)
    return;
  if (request->counted) {
    g_mutex_lock (&server->lock);
    server->under_way--;
    g_mutex_unlock (&server->lock);
  }
  g_free (request);
  *kept = NULL;
}

/* ---- life ---- */

ZsServer *
zs_server_new (const ZsServeOptions *options, const ZsScenario *scenario, GError **error)
{
  ZsServer *server = g_new0 (ZsServer, 1);
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) options->port),
                                 .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };

  server->options = options;
  server->controls = zs_controls_new (scenario, options->catalogue);
  server->title = g_strconcat ("zerosim: ", scenario->name, NULL);
  server->tokens = BURST;
  server->filled = g_get_monotonic_time ();
  g_mutex_init (&server->lock);
  server->daemon = MHD_start_daemon (
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, handle, server,
      MHD_OPTION_SOCK_ADDR, (struct sockaddr *) &address,
      MHD_OPTION_THREAD_POOL_SIZE, (unsigned int) N_THREADS,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned int) MAX_CONNECTIONS,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_BYTES,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int) IDLE_SECONDS,
      MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned int) MAX_CONNECTIONS,
      MHD_OPTION_NOTIFY_COMPLETED, completed, server, MHD_OPTION_END);
  if (server->daemon == NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "cannot serve on port %d of 127.0.0.1: is it in use?",
                 options->port);
    zs_server_free (server);
    return NULL;
  }
  server->port = MHD_get_daemon_info (server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  return server;
}

void
zs_server_free (ZsServer *server)
{
  if (server == NULL)
    return;
  if (server->daemon != NULL)
    MHD_stop_daemon (server->daemon);
  for (int i = 0; i < N_CACHED; i++) {
    if (server->cached[i].response != NULL)
      MHD_destroy_response (server->cached[i].response);
    g_free (server->cached[i].key);
  }
  zs_controls_free (server->controls);
  g_mutex_clear (&server->lock);
  g_free (server->title);
  g_free (server);
}

int
zs_server_port (const ZsServer *server)
{
  return server->port;
}
