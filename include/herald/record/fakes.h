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

// For the tests of programs that record events. Nothing here waits, sleeps or talks
// to a network.
namespace herald {

// A FakeRecorder hands out a Recorder and says what was recorded with it, one line
// per event, in the form of client-go's fakes:
//
//   FakeRecorder fake;
//   Controller controller(fake.recorder());
//   controller.Sync(pod);
//   EXPECT_EQ(fake.Next(), "Normal Started Started container web");
//
// Unlike client-go's it never blocks: when nobody takes the lines, the latest are
// dropped and counted.
//
// Thread-safe.
class HERALD_EXPORT FakeRecorder {
 public:
  struct Options {
    std::size_t max_events = 1000;
    EventApi api = EventApi::kCoreV1;
    // Appends what the event is about: ` involvedObject{kind=Pod,apiVersion=v1}`.
    bool include_object = false;
    // With kEventsV1: the action before the note, and behind it what kind of object the
    // event is about, that of the related one, and the annotations, where there are any:
    // `Normal Bound Binding m {kind=Pod,apiVersion=v1} {kind=Node,apiVersion=v1} map[k:v]`.
    bool verbose = false;
  };

  FakeRecorder() : FakeRecorder(Options()) {}
  explicit FakeRecorder(Options options);
  ~FakeRecorder();

  Recorder recorder() const;

  // The next line, or nothing if all are taken.
  std::optional<std::string> Next();
  // The next event itself.
  std::shared_ptr<const Event> NextEvent();
  // How many events came when there was no room for their lines.
  std::uint64_t dropped() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// A MemorySink is a small API server for events: it creates, updates and patches what
// it is asked to, keeps the result, and remembers every request.
//
// Thread-safe.
class HERALD_EXPORT MemorySink final : public Sink {
 public:
  // What to answer instead of doing what is asked; nothing to do it.
  using Fault = std::function<std::optional<Status>(const SinkRequest&)>;

  MemorySink();
  ~MemorySink() override;

  void Send(SinkRequest request, Completion done) override;

  // Asked before each request from now on.
  void SetFault(Fault fault);

  // The events that are there now, by namespace and name.
  std::vector<Event> Events() const;
  // Every request so far, also those that failed.
  std::vector<SinkRequest> Requests() const;
  // Forgets one event, as a server does when its time is over.
  void Expire(std::string_view namespace_, std::string_view name);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald
