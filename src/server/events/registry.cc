#include "server/events/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/bytes/uuid.h"
#include "base/thread/async_loop.h"
#include "herald/api/reference.h"
#include "herald/api/validation.h"
#include "server/events/stored_event.h"
#include "server/request/request_options.h"

namespace herald::server {
namespace {

// Attempts to find a free generated name, as upstream makes since 1.30.
constexpr int kMaxNames = 8;

// Retries of a write that another write overtook. Each time the other write to the same event was
// committed, so only that many concurrent writers of one event can use the retries up. Upstream has
// no limit, and writers of such an event can wait for minutes.
constexpr int kMaxTries = 512;

StatusDetails EventDetails(EventApi api, std::string_view name) {
  return {.name = std::string(name), .group = std::string(ApiGroupName(api)), .kind = "events"};
}

Status AboutEvent(StatusReason reason, EventApi api, std::string_view name, std::string message,
                  std::chrono::seconds retry_after = {}) {
  Status::Parts parts;
  parts.reason = reason;
  parts.message = std::move(message);
  parts.details = EventDetails(api, name);
  parts.retry_after = retry_after;
  return Status(std::move(parts));
}

Status AlreadyExists(EventApi api, const Event& existing, std::string_view name, bool made_up) {
  const bool going = existing.metadata.deletion_timestamp.has_value();
  std::string message =
      fmt::format("{}{} \"{}\" already exists", going ? "object is being deleted: " : "",
                  QualifiedResource(api), name);
  if (!made_up) return AboutEvent(StatusReason::kAlreadyExists, api, name, std::move(message));
  message += ", the server was not able to generate a unique name for the object";
  return AboutEvent(StatusReason::kAlreadyExists, api, name, std::move(message),
                    std::chrono::seconds(1));
}

Status Conflict(EventApi api, std::string_view name, std::string_view why) {
  return AboutEvent(StatusReason::kConflict, api, name,
                    fmt::format("Operation cannot be fulfilled on {} \"{}\": {}",
                                QualifiedResource(api), name, why));
}

Status Modified(EventApi api, std::string_view name) {
  return Conflict(api, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

// The stored event does not have the UID that the request requires.
Status OtherUid(EventApi api, std::string_view key, std::string_view name, std::string_view wanted,
                std::string_view actual) {
  return Conflict(api, name,
                  fmt::format("StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, "
                              "AdditionalErrorMsg: Precondition failed: UID in precondition: {}, "
                              "UID in object meta: {}",
                              key, wanted, actual));
}

Status BadRequest(std::string message) {
  return Status(StatusReason::kBadRequest, std::move(message));
}

Status TooBusy(EventApi api, std::string_view name) {
  return AboutEvent(StatusReason::kServerTimeout, api, name,
                    fmt::format("The update operation against {} could not be completed at this "
                                "time, please try again.",
                                QualifiedResource(api)),
                    std::chrono::seconds(1));
}

// The time as it will be read back: creation and deletion times have whole seconds.
Time InSeconds(WallTime now) { return {Timestamp(now).seconds(), 0}; }

// Makes a new object of the client's event: sets the members that only the server may set.
void FillSystemMetadata(WallTime now, ObjectMeta* metadata) {
  metadata->self_link.clear();
  metadata->deletion_timestamp.reset();
  metadata->deletion_grace_period_seconds.reset();
  metadata->uid = RandomUuid();
  metadata->creation_timestamp = InSeconds(now);
}

Status SetNamespace(std::string_view namespace_, ObjectMeta* metadata) {
  if (metadata->namespace_.empty()) metadata->namespace_ = namespace_;
  if (metadata->namespace_ == namespace_) return Status();
  return BadRequest(
      "the namespace of the provided object does not match the namespace sent on the request");
}

// Removes duplicate owner references with a warning, as Kubernetes does.
void DropRepeatedOwners(ObjectMeta* metadata, std::vector<std::string>* warnings) {
  std::vector<OwnerReference>& owners = metadata->owner_references;
  if (owners.size() < 2) return;
  const auto before = [](const OwnerReference* a, const OwnerReference* b) {
    const auto members = [](const OwnerReference& o) {
      return std::tie(o.uid, o.name, o.kind, o.api_version, o.controller, o.block_owner_deletion);
    };
    return members(*a) < members(*b);
  };
  // A client decides how many there are, so each must not be compared with all others.
  std::set<const OwnerReference*, decltype(before)> seen(before);
  std::vector<OwnerReference> unique;
  unique.reserve(owners.size());  // `seen` refers to its elements
  // Kubernetes sends at most 4,096 characters of warnings.
  constexpr std::size_t kMaxShown = 5000;
  std::string repeated;
  for (OwnerReference& owner : owners) {
    if (seen.contains(&owner)) {
      if (repeated.size() < kMaxShown) repeated += (repeated.empty() ? "" : ", ") + owner.uid;
    } else {
      unique.push_back(std::move(owner));
      seen.insert(&unique.back());
    }
  }
  if (unique.size() < owners.size()) {
    warnings->push_back(fmt::format(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        "requests; duplicate UID(s) observed: {}",
        repeated));
  }
  owners = std::move(unique);
}

// Restores the members that no update can change.
void RestoreSystemMetadata(const ObjectMeta& old, ObjectMeta* metadata) {
  metadata->generation = old.generation;
  metadata->self_link.clear();
  if (metadata->uid.empty()) metadata->uid = old.uid;
  metadata->creation_timestamp = old.creation_timestamp;
  if (old.deletion_timestamp) metadata->deletion_timestamp = old.deletion_timestamp;
  if (old.deletion_grace_period_seconds && !metadata->deletion_grace_period_seconds) {
    metadata->deletion_grace_period_seconds = old.deletion_grace_period_seconds;
  }
  // No entries: the stored ones are kept. One empty entry: they are removed. The server itself
  // never records any: see doc/compatibility.md.
  if (metadata->managed_fields.empty()) {
    metadata->managed_fields = old.managed_fields;
  } else if (metadata->managed_fields.size() == 1 &&
             metadata->managed_fields.front() == ManagedFieldsEntry()) {
    metadata->managed_fields.clear();
  }
}

// Whether an event that was marked for deletion has no finalizer left.
bool IsFinalized(const ObjectMeta& metadata) {
  return metadata.deletion_timestamp.has_value() && metadata.finalizers.empty() &&
         metadata.deletion_grace_period_seconds.value_or(0) == 0;
}

store::Bytes ToBytes(std::string value) {
  return std::make_shared<const std::string>(std::move(value));
}

// The largest stored events that are decoded, changed and encoded on a thread that serves others,
// in bytes: about 2 ms.
constexpr std::size_t kMaxInlineBytes = std::size_t{64} * 1024;

bool IsLarge(const store::Entry& entry) { return entry.value->size() > kMaxInlineBytes; }

// Decodes the entry with which a write conflicted.
Result<std::optional<Event>> Current(const std::optional<store::Entry>& entry) {
  if (!entry) return std::optional<Event>();
  Result<Event> event = DecodeStored(*entry);
  if (!event) return event.error();
  return std::optional<Event>(*std::move(event));
}

}  // namespace

std::string_view QualifiedResource(EventApi api) {
  return api == EventApi::kCoreV1 ? "events" : "events.events.k8s.io";
}

Status EventNotFound(EventApi api, std::string_view name) {
  return AboutEvent(StatusReason::kNotFound, api, name,
                    fmt::format("{} \"{}\" not found", QualifiedResource(api), name));
}

void Registry::Get(const Target& target, Done done) {
  store_->Get(EventStoreKey(target.namespace_, target.name),
              [api = target.api, name = target.name, post = target.post,
               done = std::move(done)](Result<std::optional<store::Entry>> entry) {
                if (!entry) return done(entry.error());
                if (!entry->has_value()) return done(EventNotFound(api, name));
                const bool large = IsLarge(**entry);
                auto finish = [done, found = **std::move(entry)] {
                  Result<Event> event = DecodeStored(found);
                  if (!event) return done(event.error());
                  done(EventResult{.event = *std::move(event)});
                };
                if (post && large) return post(std::move(finish));
                finish();
              });
}

// One POST. Its callbacks keep it alive.
class Registry::Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(store::Store* store, Target target, Event event, Done done)
      : store_(store), target_(std::move(target)), done_(std::move(done)) {
    result_.event = std::move(event);
    result_.created = true;
  }

  void Start(WallTime now) {
    ObjectMeta& metadata = result_.event.metadata;
    if (!metadata.resource_version.empty() && metadata.resource_version != "0") {
      return done_(BadRequest("resourceVersion should not be set on objects to be created"));
    }
    metadata.resource_version.clear();
    if (Status wrong = SetNamespace(target_.namespace_, &metadata); !wrong.ok()) {
      return done_(wrong);
    }
    FillSystemMetadata(now, &metadata);
    made_up_ = metadata.name.empty() && !metadata.generate_name.empty();
    DropRepeatedOwners(&metadata, &result_.warnings);
    Try();
  }

 private:
  void Try() {
    Event& event = result_.event;
    ObjectMeta& metadata = event.metadata;
    if (made_up_) metadata.name = MakeGeneratedName(metadata.generate_name);
    ++tries_;
    if (Status invalid = ValidateEventCreate(event, target_.api); !invalid.ok()) {
      return done_(invalid);
    }
    if (target_.admit && !target_.dry_run && tries_ == 1) {
      if (Status refused = target_.admit(event); !refused.ok()) return done_(refused);
    }
    std::string key = EventStoreKey(metadata.namespace_, metadata.name);
    if (target_.dry_run) {
      return store_->Get(std::move(key),
                         [self = shared_from_this()](Result<std::optional<store::Entry>> entry) {
                           if (!entry) return self->done_(entry.error());
                           if (entry->has_value()) return self->Collided(*entry);
                           self->done_(std::move(self->result_));
                         });
    }
    store::Write write{.key = std::move(key), .value = ToBytes(EncodeStored(event)), .expected = 0};
    result_.is_large = write.value->size() > kMaxInlineBytes;
    store_->Commit(std::move(write), [self = shared_from_this()](Result<store::Written> written) {
      if (!written) return self->done_(written.error());
      if (!written->committed) return self->Collided(written->current);
      self->result_.event.metadata.resource_version = ToResourceVersion(written->revision);
      self->done_(std::move(self->result_));
    });
  }

  void Collided(const std::optional<store::Entry>& entry) {
    if (made_up_ && tries_ < kMaxNames) return Try();
    const Result<std::optional<Event>> existing = Current(entry);
    if (!existing) return done_(existing.error());
    done_(AlreadyExists(target_.api, existing->value_or(Event()), result_.event.metadata.name,
                        made_up_));
  }

  store::Store* const store_;
  const Target target_;
  const Done done_;
  EventResult result_;
  bool made_up_ = false;
  int tries_ = 0;
};

void Registry::Create(Target target, Event event, Done done) {
  std::make_shared<Creation>(store_, std::move(target), std::move(event), std::move(done))
      ->Start(clock_->Now());
}

// A write that depends on the current event: read, decide, write if the event is unchanged, else
// start again with the newer event. It begins with the version that the store has in memory, if
// any. That is usually the latest; a write based on an older one fails and is retried, and any
// other decision is repeated on the version that is then read. Its callbacks keep it alive.
class Registry::Race : public std::enable_shared_from_this<Race> {
 public:
  virtual ~Race() = default;
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

  void Start() {
    current_ = store_->Recall(key_);
    basis_ = current_ ? Basis::kRemembered : Basis::kNone;
    Run();
  }

 protected:
  Race(store::Store* store, Target target, WallTime now, Done done)
      : target_(std::move(target)),
        key_(EventStoreKey(target_.namespace_, target_.name)),
        now_(now),
        done_(std::move(done)),
        store_(store) {}

  // Decides what to write and calls Commit() or Finish(); or done_, if the result does not depend
  // on `current`.
  virtual void Try(const std::optional<store::Entry>& current) = 0;

  // Ends without a write.
  void Finish(Result<EventResult> result) {
    if (basis_ == Basis::kLatest) return done_(std::move(result));
    basis_ = Basis::kNone;
    if (loop_.Again()) Run();
  }

  // Writes, and then ends with result_. `shows_revision`: its resource version is that of the
  // write.
  void Commit(store::Write write, bool shows_revision) {
    result_.is_large = write.value && write.value->size() > kMaxInlineBytes;
    store_->Commit(std::move(write), [self = shared_from_this(),
                                      shows_revision](Result<store::Written> written) {
      if (!written) return self->done_(written.error());
      if (!written->committed) return self->GoOnWith(std::move(written->current));
      if (shows_revision) {
        self->result_.event.metadata.resource_version = ToResourceVersion(written->revision);
      }
      self->done_(std::move(self->result_));
    });
  }

  const Target target_;
  const std::string key_;
  const WallTime now_;
  const Done done_;
  EventResult result_;

 private:
  // Where current_ is from.
  enum class Basis : std::uint8_t { kNone, kRemembered, kLatest };

  void Run() {
    loop_.Run([this] {
      if (basis_ == Basis::kNone) return Read();
      if (MustMove()) return Move();
      if (++tries_ > kMaxTries) return done_(TooBusy(target_.api, target_.name));
      Try(current_);
    });
  }

  void Read() {
    store_->Get(key_, [self = shared_from_this()](Result<std::optional<store::Entry>> entry) {
      if (!entry) return self->done_(entry.error());
      self->GoOnWith(*std::move(entry));
    });
  }

  // Tries again with the entry that was read, or that overtook the write.
  void GoOnWith(std::optional<store::Entry> latest) {
    current_ = std::move(latest);
    basis_ = Basis::kLatest;
    moved_ = false;
    if (loop_.Again()) Run();
  }

  // Long work must not delay others that this thread serves: other requests of its connections, or
  // the writes of all clients.
  bool MustMove() const {
    return target_.post && !moved_ && (target_.is_long_work || (current_ && IsLarge(*current_)));
  }
  void Move() {
    target_.post([self = shared_from_this()] {
      self->moved_ = true;
      if (self->loop_.Again()) self->Run();
    });
  }

  store::Store* const store_;
  AsyncLoop loop_;
  std::optional<store::Entry> current_;
  Basis basis_ = Basis::kNone;
  bool moved_ = false;  // to the thread for long work
  int tries_ = 0;
};

// One PUT or PATCH.
class Registry::Change final : public Race {
 public:
  // Either a replacement or a transform.
  Change(store::Store* store, Target target, std::optional<Event> replacement, Transform transform,
         WallTime now, Done done)
      : Race(store, std::move(target), now, std::move(done)),
        replacement_(std::move(replacement)),
        transform_(std::move(transform)) {}

 private:
  void Try(const std::optional<store::Entry>& current) override {
    if (!current) return replacement_ ? CreateInstead(*replacement_) : Finish(NotFound());
    Result<Event> old = DecodeStored(*current);
    if (!old) return Finish(old.error());

    result_ = EventResult();
    if (replacement_) {
      const std::string& uid = replacement_->metadata.uid;
      if (!uid.empty() && uid != old->metadata.uid) {
        return Finish(OtherUid(target_.api, key_, target_.name, uid, old->metadata.uid));
      }
      result_.event = *replacement_;
    } else {
      Result<Event> changed = transform_(*old);
      if (!changed) return Finish(changed.error());
      result_.event = *std::move(changed);
    }
    if (Status wrong = Prepare(*old); !wrong.ok()) return Finish(wrong);
    Write(*current, *old);
  }

  // Completes the new event and validates it.
  Status Prepare(const Event& old) {
    Event& event = result_.event;
    ObjectMeta& metadata = event.metadata;
    if (!metadata.resource_version.empty() && metadata.resource_version != "0") {
      const Result<std::uint64_t> version = ParseResourceVersion(metadata.resource_version);
      if (!version) {
        return BadRequest(fmt::format("metadata.resourceVersion: Invalid value: \"{}\": {}",
                                      metadata.resource_version, version.error().message()));
      }
      if (std::to_string(*version) != old.metadata.resource_version) {
        return Modified(target_.api, target_.name);
      }
    }
    metadata.resource_version = old.metadata.resource_version;
    if (Status wrong = SetNamespace(target_.namespace_, &metadata); !wrong.ok()) return wrong;
    RestoreSystemMetadata(old.metadata, &metadata);
    DropRepeatedOwners(&metadata, &result_.warnings);
    return ValidateEventUpdate(event, old, target_.api);
  }

  void Write(const store::Entry& current, const Event& old) {
    ObjectMeta& metadata = result_.event.metadata;
    // It is not stored. Moved out, so that the event need not be copied without it.
    std::string version = std::exchange(metadata.resource_version, {});
    std::string value = EncodeStored(result_.event);
    metadata.resource_version = std::move(version);
    const bool goes = IsFinalized(metadata);
    if (!goes && value == *current.value) {
      // Nothing changes: nothing is written, watchers see nothing, and the TTL is not extended.
      metadata.resource_version = old.metadata.resource_version;
      return Finish(std::move(result_));
    }
    if (target_.dry_run) return Finish(std::move(result_));
    if (Status refused = Admit(); !refused.ok()) return done_(refused);
    store::Write write{.key = key_,
                       .value = goes ? nullptr : ToBytes(std::move(value)),
                       .expected = current.revision};
    result_.deleted = goes;
    // Removing the last finalizer deletes the event; the response is the event before that.
    Commit(std::move(write), !goes);
  }

  // A PUT of an event that does not exist.
  void CreateInstead(const Event& event) {
    if (!event.metadata.uid.empty()) {
      return Finish(OtherUid(target_.api, key_, target_.name, event.metadata.uid, ""));
    }
    result_ = EventResult{.event = event, .created = true};
    ObjectMeta& metadata = result_.event.metadata;
    // The version that the client has seen was deleted.
    metadata.resource_version.clear();
    if (Status wrong = SetNamespace(target_.namespace_, &metadata); !wrong.ok()) {
      return Finish(wrong);
    }
    FillSystemMetadata(now_, &metadata);
    DropRepeatedOwners(&metadata, &result_.warnings);
    if (Status invalid = ValidateEventCreate(result_.event, target_.api); !invalid.ok()) {
      return Finish(invalid);
    }
    if (!target_.may_create.ok()) return done_(target_.may_create);
    if (target_.dry_run) return Finish(std::move(result_));
    if (Status refused = Admit(); !refused.ok()) return done_(refused);
    Commit({.key = key_, .value = ToBytes(EncodeStored(result_.event)), .expected = 0}, true);
  }

  Status Admit() {
    if (!target_.admit || std::exchange(asked_, true)) return Status();
    return target_.admit(result_.event);
  }

  Status NotFound() const { return EventNotFound(target_.api, target_.name); }

  const std::optional<Event> replacement_;
  const Transform transform_;
  bool asked_ = false;
};

void Registry::Update(Target target, Event event, Done done) {
  std::make_shared<Change>(store_, std::move(target), std::move(event), nullptr, clock_->Now(),
                           std::move(done))
      ->Start();
}

void Registry::Patch(Target target, Transform transform, Done done) {
  std::make_shared<Change>(store_, std::move(target), std::nullopt, std::move(transform),
                           clock_->Now(), std::move(done))
      ->Start();
}

// One DELETE.
class Registry::Deletion final : public Race {
 public:
  Deletion(store::Store* store, Target target, DeleteOptions options, WallTime now, Done done)
      : Race(store, std::move(target), now, std::move(done)), options_(std::move(options)) {}

 private:
  void Try(const std::optional<store::Entry>& current) override {
    if (!current) return Finish(EventNotFound(target_.api, target_.name));
    Result<Event> event = DecodeStored(*current);
    if (!event) return Finish(event.error());
    if (Status wrong = CheckPreconditions(event->metadata); !wrong.ok()) return Finish(wrong);

    result_ = EventResult{.event = *std::move(event), .deleted = true};
    ObjectMeta& metadata = result_.event.metadata;
    store::Write write{.key = key_, .value = nullptr, .expected = current->revision};
    if (!metadata.finalizers.empty()) {
      // It has finalizers, so it is only marked for deletion.
      result_.deleted = false;
      if (!metadata.deletion_timestamp || *metadata.deletion_timestamp > Timestamp(now_)) {
        metadata.deletion_timestamp = InSeconds(now_);
      }
      metadata.deletion_grace_period_seconds = 0;
      std::string value = EncodeStored(result_.event);
      if (value == *current->value) return Finish(std::move(result_));
      write.value = ToBytes(std::move(value));
    }
    if (target_.dry_run) return Finish(std::move(result_));
    Commit(std::move(write), true);
  }

  Status CheckPreconditions(const ObjectMeta& metadata) const {
    const auto conflict = [this](std::string_view what, std::string_view wanted,
                                 std::string_view actual, std::string_view maybe) {
      // Upstream names the kind here, where all its other messages name the resource.
      Status::Parts parts;
      parts.reason = StatusReason::kConflict;
      parts.message = fmt::format(
          "Operation cannot be fulfilled on Event \"{}\": the {} in the precondition ({}) does not "
          "match the {} in record ({}). The object might have been {}",
          target_.name, what, wanted, what, actual, maybe);
      parts.details = StatusDetails{.name = target_.name, .kind = "Event"};
      return Status(std::move(parts));
    };
    if (options_.precondition_uid && *options_.precondition_uid != metadata.uid) {
      return conflict("UID", *options_.precondition_uid, metadata.uid,
                      "deleted and then recreated");
    }
    if (options_.precondition_resource_version &&
        *options_.precondition_resource_version != metadata.resource_version) {
      return conflict("ResourceVersion", *options_.precondition_resource_version,
                      metadata.resource_version, "modified");
    }
    return Status();
  }

  const DeleteOptions options_;
};

void Registry::Delete(Target target, DeleteOptions options, Done done) {
  std::make_shared<Deletion>(store_, std::move(target), std::move(options), clock_->Now(),
                             std::move(done))
      ->Start();
}

}  // namespace herald::server
