// The options that need more than a number, as a C program sets them: a spool that outlives
// the broadcaster, a fair filter, and an API that is chosen later. Also that a program which
// knows a shorter struct than the library does still works.
#include <herald/herald.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// What the server stands for in this program: whether it is there, and what it was told.
struct server {
  int is_up;
  char last_path[256];
};

static int write_event(void* user_data, const herald_request* request, herald_answer* answer) {
  struct server* server = user_data;
  if (!server->is_up) return herald_answer_set_error(answer, NULL, "no server"), 1;
  snprintf(server->last_path, sizeof(server->last_path), "%s", request->path);
  return 0;
}

static int failed(const char* what) {
  char why[256];
  herald_last_error(why, sizeof(why));
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 2;
  struct server server = {0, ""};
  herald_sink* sink = herald_sink_from_function(write_event, &server);
  herald_api_choice* choice = herald_api_choice_new();

  herald_spool_options spool = {.size = sizeof(spool), .directory = argv[1]};
  herald_recording_options recording = {.size = sizeof(recording),
                                        .max_tries = 1,
                                        .retry_after_ms = 1,
                                        .spool = &spool,
                                        .fair_filter = 1};
  herald_recorder_options who = {
      .size = sizeof(who), .component = "node-agent", .api_choice = choice};
  herald_reference pod = {.kind = "Pod", .namespace_ = "default", .name = "web-0"};
  herald_stats stats = {.size = sizeof(stats)};

  // Nobody is there, so the event goes to disk.
  herald_broadcaster* broadcaster = herald_broadcaster_new(NULL);
  herald_recorder* recorder = herald_recorder_new(broadcaster, &who);
  if (herald_broadcaster_start_recording_to_sink(broadcaster, sink, &recording) != HERALD_OK) {
    return failed("start");
  }
  herald_recorder_event(recorder, &pod, HERALD_NORMAL, "Started", "Started container web");
  if (herald_api_choice_set(choice, HERALD_API_EVENTS_V1) != HERALD_OK) return failed("choose");
  if (herald_broadcaster_shutdown(broadcaster, 60000, NULL) != HERALD_OK) return failed("stop");
  if (herald_broadcaster_stats(broadcaster, 0, &stats) != HERALD_OK) return failed("stats");
  if (stats.outcomes[HERALD_OUTCOME_SPOOLED] != 1 || stats.spool_bytes == 0) {
    return fprintf(stderr, "nothing was spooled\n"), 1;
  }
  herald_recorder_free(recorder);
  herald_broadcaster_free(broadcaster);

  // The server is back, and the next broadcaster brings it what there is. Its options are
  // those of an older header, which ended before the spool: none is opened for those.
  herald_recording_options older = recording;
  older.size = offsetof(herald_recording_options, spool);
  server.is_up = 1;
  broadcaster = herald_broadcaster_new(NULL);
  if (herald_broadcaster_start_recording_to_sink(broadcaster, sink, &older) != HERALD_OK) {
    return failed("start with older options");
  }
  if (herald_broadcaster_start_recording_to_sink(broadcaster, sink, &recording) != HERALD_OK) {
    return failed("start again");
  }
  do {  // until it is written
    if (herald_broadcaster_flush(broadcaster, 60000, NULL) != HERALD_OK) return failed("flush");
    if (herald_broadcaster_stats(broadcaster, 1, &stats) != HERALD_OK) return failed("stats");
  } while (stats.outcomes[HERALD_OUTCOME_WRITTEN] == 0);
  herald_broadcaster_free(broadcaster);
  herald_sink_free(sink);
  herald_api_choice_free(choice);
  printf("%s\n", server.last_path);
  return strcmp(server.last_path, "/apis/events.k8s.io/v1/namespaces/default/events") == 0 ? 0 : 1;
}
