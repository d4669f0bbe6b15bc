#include <herald/herald.h>
#include <stdio.h>

// Writes one event. A real program sends the request to an API server with an HTTP
// library and stores the answer; this one prints the request.
static int write_event(void* user_data, const herald_request* request, herald_answer* answer) {
  (void)user_data;
  printf("%s %s\n%s\n", request->method, request->path, request->body);
  herald_answer_set(answer, 201, NULL, 0);
  return 0;
}

int main(void) {
  herald_sink* sink = herald_sink_from_function(write_event, NULL);
  herald_broadcaster* broadcaster = herald_broadcaster_new(NULL);
  herald_recorder_options options = {.size = sizeof(options), .component = "node-agent"};
  herald_recorder* recorder = herald_recorder_new(broadcaster, &options);
  herald_broadcaster_start_recording_to_sink(broadcaster, sink, NULL);

  herald_reference pod = {.kind = "Pod", .namespace_ = "default", .name = "web-0"};
  herald_recorder_event(recorder, &pod, HERALD_NORMAL, "Started", "Started container web");

  // The calls above need no check: a failed call returns NULL, which shutdown rejects.
  herald_stats stats = {.size = sizeof(stats)};
  herald_status status = herald_broadcaster_shutdown(broadcaster, 5000, NULL);
  if (status == HERALD_OK) status = herald_broadcaster_stats(broadcaster, 0, &stats);
  if (status != HERALD_OK) {
    char why[256];
    herald_last_error(why, sizeof(why));
    fprintf(stderr, "%s: %s\n", herald_status_name(status), why);
  }
  herald_recorder_free(recorder);
  herald_broadcaster_free(broadcaster);
  herald_sink_free(sink);
  return stats.outcomes[HERALD_OUTCOME_WRITTEN] == 1 ? 0 : 1;
}
