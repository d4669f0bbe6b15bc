#include "server/events/registry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "herald/api/codec.h"
#include "server/events/stored_event.h"
#include "store/memory/store.h"
#include "store/testing/forwarding_store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

Event PodEvent(std::string name) {
  Event event;
  event.metadata.name = std::move(name);
  event.involved_object = {.kind = "Pod", .namespace_ = "default", .name = "web", .uid = "u1"};
  event.reason = "Started";
  event.message = "m";
  event.count = 1;
  return event;
}

class RegistryTest : public testing::Test {
 protected:
  using EventResult = Registry::EventResult;
  using Call = std::function<void(Registry::Done)>;

  // All calls of this store complete before they return.
  static Result<EventResult> Wait(const Call& call) {
    std::optional<Result<EventResult>> result;
    call([&result](Result<EventResult> called) { result.emplace(std::move(called)); });
    return result ? *std::move(result)
                  : Result<EventResult>(Status(StatusReason::kInternalError, "not called back"));
  }

  Registry::Target At(std::string name, EventApi api = EventApi::kCoreV1) {
    Registry::Target target;
    target.api = api;
    target.namespace_ = "default";
    target.name = std::move(name);
    return target;
  }

  Result<EventResult> Create(const Event& event) { return Create(At(""), event); }
  Result<EventResult> Create(const Registry::Target& target, const Event& event) {
    return Wait([&](Registry::Done done) { registry_.Create(target, event, std::move(done)); });
  }
  Result<EventResult> Get(const std::string& name) {
    return Wait([&](Registry::Done done) { registry_.Get(At(name), std::move(done)); });
  }
  Result<EventResult> Update(const Event& event) { return Update(At(event.metadata.name), event); }
  Result<EventResult> Update(const Registry::Target& target, const Event& event) {
    return Wait([&](Registry::Done done) { registry_.Update(target, event, std::move(done)); });
  }
  Result<EventResult> Patch(const std::string& name, const Registry::Transform& transform) {
    return Wait(
        [&](Registry::Done done) { registry_.Patch(At(name), transform, std::move(done)); });
  }
  Result<EventResult> Delete(const std::string& name, const DeleteOptions& options = {}) {
    return Wait([&](Registry::Done done) { registry_.Delete(At(name), options, std::move(done)); });
  }
  store::Revision revision() { return store_.Stats().revision; }

  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  store::MemoryStore store_{[this] {
    store::StoreOptions options;
    options.schema = MakeEventSchema([](const Event&) { return seconds(3600); });
    options.clock = &clock_;
    options.background = false;
    return options;
  }()};
  Registry registry_{&store_, &clock_};
};

TEST_F(RegistryTest, CreateSetsTheMembersOfTheServer) {
  Event event = PodEvent("a");
  event.metadata.uid = "mine";
  event.metadata.creation_timestamp = Time(1, 0);
  event.metadata.self_link = "/x";
  event.metadata.deletion_timestamp = Time(2, 0);
  event.metadata.deletion_grace_period_seconds = 3;
  const Result<EventResult> made = Create(event);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_TRUE(made->created);
  const ObjectMeta& metadata = made->event.metadata;
  EXPECT_EQ(metadata.namespace_, "default");
  EXPECT_EQ(metadata.uid.size(), 36U);
  EXPECT_EQ(metadata.creation_timestamp, Time(1'700'000'000, 0));
  EXPECT_EQ(metadata.resource_version, std::to_string(revision()));
  EXPECT_TRUE(metadata.self_link.empty());
  EXPECT_FALSE(metadata.deletion_timestamp);
  EXPECT_FALSE(metadata.deletion_grace_period_seconds);
  EXPECT_EQ(Get("a")->event, made->event);
}

TEST_F(RegistryTest, StoresWhatKubeApiserverWouldStore) {
  const Result<EventResult> made = Create(PodEvent("a"));
  ASSERT_TRUE(made);
  std::optional<store::Entry> entry;
  store_.Get("/registry/events/default/a",
             [&](Result<std::optional<store::Entry>> got) { entry = *got; });
  if (!entry) FAIL();
  Event plain = made->event;
  plain.metadata.resource_version.clear();
  std::string expected;
  ProtobufCodec().AppendEvent(plain, EventApi::kCoreV1, &expected);
  EXPECT_EQ(*entry->value, expected);
}

TEST_F(RegistryTest, RejectsInvalidCreates) {
  ASSERT_TRUE(Create(PodEvent("a")));
  const Result<EventResult> twice = Create(PodEvent("a"));
  EXPECT_EQ(twice.error().reason(), StatusReason::kAlreadyExists);
  EXPECT_EQ(twice.error().message(), "events \"a\" already exists");
  EXPECT_EQ(Create(At("", EventApi::kEventsV1), PodEvent("a")).error().code(), 422);

  Event versioned = PodEvent("b");
  versioned.metadata.resource_version = "5";
  EXPECT_EQ(Create(versioned).error().code(), 400);
  Event elsewhere = PodEvent("b");
  elsewhere.metadata.namespace_ = "other";
  EXPECT_EQ(
      Create(elsewhere).error().message(),
      "the namespace of the provided object does not match the namespace sent on the request");
  EXPECT_EQ(Create(PodEvent("")).error().code(), 422);
  Registry::Target target = At("");
  target.admit = [](const Event&) { return Status(StatusReason::kTooManyRequests, "slower"); };
  EXPECT_EQ(Create(target, PodEvent("c")).error().code(), 429);
  EXPECT_FALSE(Get("c"));
}

TEST_F(RegistryTest, GeneratesNames) {
  Event event = PodEvent("");
  event.metadata.generate_name = "web.";
  const Result<EventResult> made = Create(event);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->event.metadata.name.size(), 9U);
  EXPECT_TRUE(made->event.metadata.name.starts_with("web."));
  EXPECT_EQ(made->event.metadata.generate_name, "web.");
}

TEST_F(RegistryTest, ADryRunWritesNothing) {
  Registry::Target target = At("");
  target.dry_run = true;
  const store::Revision before = revision();
  const Result<EventResult> made = Create(target, PodEvent("a"));
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->event.metadata.resource_version.empty());
  EXPECT_FALSE(made->event.metadata.uid.empty());
  EXPECT_EQ(revision(), before);

  ASSERT_TRUE(Create(PodEvent("a")));
  EXPECT_EQ(Create(target, PodEvent("a")).error().reason(), StatusReason::kAlreadyExists);
  target.name = "a";
  Event changed = PodEvent("a");
  changed.count = 7;
  EXPECT_EQ(Update(target, changed)->event.count, 7);
  EXPECT_EQ(Get("a")->event.count, 1);
}

TEST_F(RegistryTest, UpdateKeepsWhatNoClientMayChange) {
  const Event old = Create(PodEvent("a"))->event;
  clock_.Advance(seconds(10));
  Event next = PodEvent("a");
  next.message = "changed";
  next.metadata.creation_timestamp = Time(1, 0);
  next.metadata.generation = 9;
  const Result<EventResult> updated = Update(next);
  ASSERT_TRUE(updated) << updated.error().ToString();
  EXPECT_FALSE(updated->created);
  EXPECT_EQ(updated->event.message, "changed");
  EXPECT_EQ(updated->event.metadata.uid, old.metadata.uid);
  EXPECT_EQ(updated->event.metadata.creation_timestamp, old.metadata.creation_timestamp);
  EXPECT_EQ(updated->event.metadata.generation, 0);
  EXPECT_NE(updated->event.metadata.resource_version, old.metadata.resource_version);
}

TEST_F(RegistryTest, AnUpdateThatChangesNothingWritesNothing) {
  const Event old = Create(PodEvent("a"))->event;
  const store::Revision before = revision();
  const Result<EventResult> again = Update(old);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->event, old);
  EXPECT_EQ(revision(), before);
}

TEST_F(RegistryTest, AnUpdateOfAnotherVersionIsAConflict) {
  const Event old = Create(PodEvent("a"))->event;
  Event first = old;
  first.count = 2;
  ASSERT_TRUE(Update(first));
  Event second = old;
  second.count = 3;
  const Status conflict = Update(second).error();
  EXPECT_EQ(conflict.reason(), StatusReason::kConflict);
  EXPECT_EQ(conflict.message(),
            "Operation cannot be fulfilled on events \"a\": the object has been modified; please "
            "apply your changes to the latest version and try again");
  second.metadata.resource_version.clear();
  EXPECT_EQ(Update(second)->event.count, 3) << "without a version it is unconditional";
  second.metadata.resource_version = "x";
  EXPECT_EQ(Update(second).error().code(), 400);
  second.metadata.resource_version.clear();
  second.metadata.uid = "other";
  EXPECT_EQ(Update(second).error().reason(), StatusReason::kConflict);
}

TEST_F(RegistryTest, APutCreates) {
  Event event = PodEvent("a");
  event.metadata.resource_version = "77";  // of the deleted event
  const Result<EventResult> made = Update(event);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_TRUE(made->created);

  Registry::Target target = At("b");
  target.may_create = Status(StatusReason::kForbidden, "no");
  EXPECT_EQ(Update(target, PodEvent("b")).error().code(), 403);
  EXPECT_FALSE(Get("b"));
  EXPECT_TRUE(Update(target,
                     [&] {
                       Event there = Get("a")->event;
                       there.metadata.name = "b";
                       return there;
                     }())
                  .error()
                  .Is(StatusReason::kConflict))
      << "a uid names an event that must be there";
}

TEST_F(RegistryTest, PatchesTheCurrentEvent) {
  ASSERT_TRUE(Create(PodEvent("a")));
  const auto count_up = [](const Event& current) -> Result<Event> {
    Event next = current;
    ++next.count;
    return next;
  };
  EXPECT_EQ(Patch("a", count_up)->event.count, 2);
  EXPECT_EQ(Patch("a", count_up)->event.count, 3);
  EXPECT_EQ(Patch("missing", count_up).error().code(), 404);
  EXPECT_EQ(Patch("a",
                  [](const Event&) -> Result<Event> {
                    return Status(StatusReason::kBadRequest, "no patch");
                  })
                .error()
                .code(),
            400);
}

TEST_F(RegistryTest, RetriesAPatchThatAnotherWriteOvertook) {
  ASSERT_TRUE(Create(PodEvent("a")));
  int calls = 0;
  const Result<EventResult> patched = Patch("a", [&](const Event& current) -> Result<Event> {
    if (++calls <= 3) {  // another writer is faster
      Event other = current;
      other.count += 10;
      EXPECT_TRUE(Update(other));
    }
    Event next = current;
    ++next.count;
    return next;
  });
  ASSERT_TRUE(patched);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(patched->event.count, 32);
}

// A store that completes reads when the test says so, as if on another thread.
class LateStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void Get(std::string key, EntryDone done) override {
    waiting.push_back(
        [this, key = std::move(key), done = std::move(done)] { inner_->Get(key, done); });
  }
  std::vector<std::function<void()>> waiting;
};

TEST_F(RegistryTest, LongWorkLeavesTheThreadsOfTheStore) {
  ASSERT_TRUE(Create(PodEvent("a")));
  LateStore late(&store_);
  Registry registry(&late, &clock_);
  Registry::Target target = At("a");
  std::vector<std::function<void()>> posted;
  target.post = [&posted](std::function<void()> work) { posted.push_back(std::move(work)); };
  target.is_long_work = true;
  int patched = 0;
  bool done = false;
  registry.Patch(
      target,
      [&](const Event& current) -> Result<Event> {
        ++patched;
        Event next = current;
        ++next.count;
        return next;
      },
      [&done](const Result<EventResult>& result) { done = result.has_value(); });
  ASSERT_EQ(late.waiting.size(), 1U);
  late.waiting[0]();
  EXPECT_EQ(patched, 0);
  ASSERT_EQ(posted.size(), 1U);
  posted[0]();
  EXPECT_EQ(patched, 1);
  EXPECT_TRUE(done);
}

TEST_F(RegistryTest, WorkOnALargeEventIsLongWork) {
  Event event = PodEvent("a");
  event.metadata.annotations["large"] = std::string(100'000, 'x');
  const Result<EventResult> made = Create(event);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_TRUE(made->is_large);
  std::vector<std::function<void()>> posted;
  Registry::Target target = At("a");
  target.post = [&posted](std::function<void()> work) { posted.push_back(std::move(work)); };
  int done = 0;
  registry_.Get(target, [&done](const Result<EventResult>& result) { done += result ? 1 : 0; });
  registry_.Patch(
      target, [](const Event& current) -> Result<Event> { return current; },
      [&done](const Result<EventResult>& result) { done += result ? 1 : 0; });
  EXPECT_EQ(done, 0);
  while (!posted.empty()) {
    const std::vector<std::function<void()>> now = std::exchange(posted, {});
    for (const std::function<void()>& work : now) work();
  }
  EXPECT_EQ(done, 2);
}

// A store that has an entry in memory since Remember().
class RememberingStore final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void Remember(const std::string& key) {
    inner_->Get(key, [this](Result<std::optional<store::Entry>> entry) { at_hand_ = *entry; });
  }
  std::optional<store::Entry> Recall(const std::string& key) override {
    return at_hand_ && at_hand_->key == key ? at_hand_ : std::nullopt;
  }
  void Get(std::string key, EntryDone done) override {
    ++reads;
    inner_->Get(std::move(key), std::move(done));
  }

  int reads = 0;

 private:
  std::optional<store::Entry> at_hand_;
};

class RegistryWithMemoryTest : public RegistryTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Create(PodEvent("a")));
    remembering_.Remember(EventStoreKey("default", "a"));
  }
  Result<EventResult> Patch(const Registry::Transform& transform) {
    return Wait(
        [&](Registry::Done done) { remembers_.Patch(At("a"), transform, std::move(done)); });
  }

  RememberingStore remembering_{&store_};
  Registry remembers_{&remembering_, &clock_};
};

TEST_F(RegistryWithMemoryTest, DoesNotReadAVersionThatIsInMemory) {
  const Result<EventResult> patched = Patch([](Event event) {
    event.count = 2;
    return Result<Event>(std::move(event));
  });
  ASSERT_TRUE(patched) << patched.error().ToString();
  EXPECT_EQ(patched->event.metadata.resource_version, std::to_string(revision()));
  EXPECT_EQ(Get("a")->event, patched->event);
  EXPECT_EQ(remembering_.reads, 0);
}

TEST_F(RegistryWithMemoryTest, RetriesAWriteThatWasBasedOnAnOldVersion) {
  ASSERT_TRUE(RegistryTest::Patch("a", [](Event event) {
    event.message = "by another";
    return Result<Event>(std::move(event));
  }));
  ASSERT_TRUE(Patch([](Event event) {
    event.count = 2;
    return Result<Event>(std::move(event));
  }));
  EXPECT_EQ(Get("a")->event.message, "by another");
  EXPECT_EQ(Get("a")->event.count, 2);
}

TEST_F(RegistryWithMemoryTest, AnOldVersionDecidesNeitherErrorsNorUnchangedWrites) {
  const Event old = Get("a")->event;
  ASSERT_TRUE(RegistryTest::Patch("a", [](Event event) {
    event.count = 7;
    return Result<Event>(std::move(event));
  }));
  // It would change nothing in the version that is in memory.
  ASSERT_TRUE(Patch([](Event event) {
    event.count = 1;
    return Result<Event>(std::move(event));
  }));
  EXPECT_EQ(Get("a")->event.count, 1);

  const Result<EventResult> changed = Patch([&old](Event event) {
    if (event == old) return Result<Event>(Status(StatusReason::kBadRequest, "old"));
    event.count = 3;
    return Result<Event>(std::move(event));
  });
  EXPECT_TRUE(changed) << changed.error().ToString();

  // Versions and preconditions are compared with the latest.
  const Event latest = Get("a")->event;
  EXPECT_TRUE(
      Wait([&](Registry::Done done) { remembers_.Update(At("a"), latest, std::move(done)); }));
  const Result<EventResult> stale =
      Wait([&](Registry::Done done) { remembers_.Update(At("a"), old, std::move(done)); });
  ASSERT_FALSE(stale);
  EXPECT_TRUE(stale.error().Is(StatusReason::kConflict));
  DeleteOptions options;
  options.precondition_resource_version = latest.metadata.resource_version;
  EXPECT_TRUE(
      Wait([&](Registry::Done done) { remembers_.Delete(At("a"), options, std::move(done)); }));
  const Result<EventResult> gone = Patch([](const Event& event) { return Result<Event>(event); });
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().Is(StatusReason::kNotFound));
}

TEST_F(RegistryTest, AWriterThatIsAlwaysOvertakenGetsRetryAfter) {
  ASSERT_TRUE(Create(PodEvent("a")));
  const Result<EventResult> patched = Patch("a", [&](const Event& current) -> Result<Event> {
    Event other = current;
    ++other.count;
    EXPECT_TRUE(Update(other));
    Event next = current;
    next.message = "mine";
    return next;
  });
  ASSERT_FALSE(patched);
  EXPECT_EQ(patched.error().reason(), StatusReason::kServerTimeout);
  EXPECT_GT(patched.error().retry_after(), seconds(0));
}

TEST_F(RegistryTest, ManyWritersOfOneEventAllCount) {
  ASSERT_TRUE(Create(PodEvent("a")));
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(Patch("a", [](const Event& current) -> Result<Event> {
          Event next = current;
          ++next.count;
          return next;
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("a")->event.count, 1 + kThreads * kEach);
}

TEST_F(RegistryTest, DeletesOnlyIfThePreconditionsMatch) {
  const Event event = Create(PodEvent("a"))->event;
  DeleteOptions options;
  options.precondition_uid = "other";
  EXPECT_EQ(Delete("a", options).error().reason(), StatusReason::kConflict);
  options.precondition_uid = event.metadata.uid;
  options.precondition_resource_version = "1234";
  EXPECT_EQ(Delete("a", options).error().reason(), StatusReason::kConflict);
  options.precondition_resource_version = event.metadata.resource_version;
  const Result<EventResult> deleted = Delete("a", options);
  ASSERT_TRUE(deleted);
  EXPECT_TRUE(deleted->deleted);
  EXPECT_EQ(Get("a").error().code(), 404);
  EXPECT_EQ(Delete("a").error().code(), 404);
}

TEST_F(RegistryTest, AnEventWithFinalizersIsOnlyMarkedForDeletion) {
  Event event = PodEvent("a");
  event.metadata.finalizers = {"example.com/wait"};
  ASSERT_TRUE(Create(event));
  clock_.Advance(seconds(5));
  const Result<EventResult> marked = Delete("a");
  ASSERT_TRUE(marked);
  EXPECT_FALSE(marked->deleted);
  EXPECT_EQ(marked->event.metadata.deletion_timestamp, Time(1'700'000'005, 0));
  EXPECT_EQ(marked->event.metadata.deletion_grace_period_seconds, 0);
  EXPECT_EQ(Create(PodEvent("a")).error().message(),
            "object is being deleted: events \"a\" already exists");

  const Result<EventResult> gone = Patch("a", [](const Event& current) -> Result<Event> {
    Event next = current;
    next.metadata.finalizers.clear();
    return next;
  });
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->deleted);
  EXPECT_EQ(Get("a").error().code(), 404);
}

TEST_F(RegistryTest, RemovesDuplicateOwners) {
  Event event = PodEvent("a");
  const OwnerReference owner{.api_version = "v1", .kind = "Pod", .name = "web", .uid = "u1"};
  event.metadata.owner_references = {owner, owner};
  const Result<EventResult> made = Create(event);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->event.metadata.owner_references.size(), 1U);
  ASSERT_EQ(made->warnings.size(), 1U);
}

TEST_F(RegistryTest, WarnsOnceOfAllDuplicateOwners) {
  Event event = PodEvent("a");
  for (const char* uid : {"u1", "u2", "u1", "u3", "u2", "u1"}) {
    event.metadata.owner_references.push_back(
        {.api_version = "v1", .kind = "Pod", .name = "web", .uid = uid});
  }
  // The same UID, but another owner.
  event.metadata.owner_references.push_back(
      {.api_version = "v1", .kind = "Pod", .name = "other", .uid = "u1"});
  const Result<EventResult> made = Create(event);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->event.metadata.owner_references.size(), 4U);
  ASSERT_EQ(made->warnings.size(), 1U);
  EXPECT_TRUE(made->warnings[0].ends_with("duplicate UID(s) observed: u1, u2, u1"))
      << made->warnings[0];
}

TEST_F(RegistryTest, KeepsManagedFieldsAndNeverAddsThem) {
  Event event = PodEvent("a");
  event.metadata.managed_fields = {{.manager = "m",
                                    .operation = "Update",
                                    .api_version = "v1",
                                    .fields_type = "FieldsV1",
                                    .fields_v1 = "{}"}};
  ASSERT_TRUE(Create(event));
  Event next = PodEvent("a");
  next.count = 2;
  EXPECT_EQ(Update(next)->event.metadata.managed_fields.size(), 1U);
  next.metadata.managed_fields = {ManagedFieldsEntry()};
  EXPECT_TRUE(Update(next)->event.metadata.managed_fields.empty());
}

TEST_F(RegistryTest, ReportsAValueThatIsNotAnEvent) {
  store_.Commit({.key = "/registry/events/default/bad",
                 .value = std::make_shared<const std::string>("k8s\0junk", 8)},
                [](const Result<store::Written>&) {});
  const Status status = Get("bad").error();
  EXPECT_EQ(status.reason(), StatusReason::kInternalError);
  EXPECT_NE(status.message().find("/registry/events/default/bad"), std::string::npos);
}

}  // namespace
}  // namespace herald::server
