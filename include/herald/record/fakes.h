#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/export.h"
#include "herald/record/broadcaster.h"
#include "herald/record/recorder.h"
#include "herald/record/sink.h"

// Fakes for the tests of programs that record events. They do not wait, sleep or use a network.
namespace herald {

// A FakeRecorder has a Recorder, and returns what was recorded with it as one line per event, in
// the form of client-go's fakes:
//
//   FakeRecorder fake;
//   Controller controller(fake.recorder());
//   controller.Sync(pod);
//   EXPECT_EQ(fake.Next(), "Normal Started Started container web");
//
// Unlike client-go's it never blocks: when max_events lines were not taken, further ones are
// dropped and counted.
//
// Thread-safe.
class HERALD_EXPORT FakeRecorder {
 public:
  struct Options {
    std::size_t max_events = 1000;
    EventApi api = EventApi::kCoreV1;
    // With kCoreV1: appends the kind of the object, ` involvedObject{kind=Pod,apiVersion=v1}`.
    bool include_object = false;
    // With kEventsV1: adds the action before the note, and after it the kind of the object, the
    // kind of the related object and the annotations, if there are any:
    // `Normal Bound Binding m {kind=Pod,apiVersion=v1} {kind=Node,apiVersion=v1} map[k:v]`.
    bool verbose = false;
  };

  FakeRecorder() : FakeRecorder(Options()) {}
  explicit FakeRecorder(Options options);
  ~FakeRecorder();

  Recorder recorder() const;

  // The next line, or nothing if all were taken.
  std::optional<std::string> Next();
  // The next event instead of its line; null if all were taken.
  std::shared_ptr<const Event> NextEvent();
  // The number of events that were dropped because max_events lines were not taken.
  std::uint64_t dropped() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// A MemorySink behaves like a small API server: it creates, updates and patches events in
// memory, and remembers every request.
//
// Thread-safe.
class HERALD_EXPORT MemorySink final : public Sink {
 public:
  // Returns an error to answer the request with, or nothing to execute the request.
  using Fault = std::function<std::optional<Status>(const SinkRequest&)>;

  MemorySink();
  ~MemorySink() override;

  void Send(SinkRequest request, Completion done) override;

  // Called before each request from now on. Null: every request is executed.
  void SetFault(Fault fault);

  // The events that exist now, ordered by namespace and name.
  std::vector<Event> Events() const;
  // All requests so far, including those that failed.
  std::vector<SinkRequest> Requests() const;
  // Deletes an event, as a server does after its TTL.
  void Expire(std::string_view namespace_, std::string_view name);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
