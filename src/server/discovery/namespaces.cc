#include "server/discovery/namespaces.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/thread/async_loop.h"
#include "server/events/stored_event.h"

namespace herald::server {
namespace {

constexpr std::array<std::string_view, 2> kPermanent = {"default", "kube-system"};

// Namespaces are not stored, so the UID is a hash of the name: the same in every process. It has
// the form of a UUID of version 8, which is for custom schemes.
std::string UidOf(std::string_view name) {
  const auto hash = [name](std::uint64_t value) {  // FNV-1a
    for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return value;
  };
  const std::uint64_t high = hash(0xcbf29ce484222325);
  const std::uint64_t low = hash(high ^ 0x9e3779b97f4a7c15);
  return fmt::format("{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff,
                     high & 0xfff, (low >> 48 & 0x3fff) | 0x8000, low & 0xffffffffffff);
}

// The names are DNS labels, so they need no escaping.
std::string MetadataJson(const NamespaceInfo& info, store::Revision revision) {
  return fmt::format(R"({{"name":"{0}","uid":"{1}","resourceVersion":"{2}","creationTimestamp":)"
                     R"("{3}","labels":{{"kubernetes.io/metadata.name":"{0}"}}}})",
                     info.name, UidOf(info.name), revision, info.created.ToString());
}

std::string MembersJson(const NamespaceInfo& info, store::Revision revision) {
  return fmt::format(
      R"("metadata":{},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}})",
      MetadataJson(info, revision));
}

// Nothing if the entry cannot be decoded or has no time.
std::optional<Time> CreationOf(const store::Entry& entry) {
  const Result<Event> event = DecodeStored(entry);
  if (!event || event->metadata.creation_timestamp.is_zero()) return std::nullopt;
  return event->metadata.creation_timestamp;
}

std::string_view MetaName(MetaVersion version) {
  return version == MetaVersion::kV1 ? "meta.k8s.io/v1" : "meta.k8s.io/v1beta1";
}

}  // namespace

bool IsPermanentNamespace(std::string_view name) {
  return std::ranges::find(kPermanent, name) != kPermanent.end();
}

// The times since which namespaces exist. Thread-safe.
class Namespaces::Table {
 public:
  explicit Table(WallTime started) : started_(started) {}

  std::optional<Time> Find(const std::string& name) const {
    const MutexLock lock(mu_);
    const auto found = created_.find(name);
    if (found != created_.end()) return found->second;
    return std::nullopt;
  }
  // If two callers add the same namespace, the first one counts. Without a time it is the server's
  // start.
  Time Insert(const std::string& name, std::optional<Time> created) {
    const MutexLock lock(mu_);
    return created_.emplace(name, created.value_or(started_)).first->second;
  }
  void Remove(const std::string& name) {
    const MutexLock lock(mu_);
    created_.erase(name);
  }
  std::set<std::string> Names() const {
    const MutexLock lock(mu_);
    std::set<std::string> names;
    for (const auto& [name, created] : created_) names.insert(name);
    return names;
  }

 private:
  const Time started_;
  mutable Mutex mu_;
  std::map<std::string, Time> created_ GUARDED_BY(mu_);  // by namespace
};

// Reads one event of each known namespace, and the first kMaxRead events of each new one.
class Namespaces::Scan : public std::enable_shared_from_this<Scan> {
 public:
  Scan(store::Store* store, std::shared_ptr<Table> table,
       std::function<void(Result<NamespaceList>)> done)
      : store_(store), table_(std::move(table)), done_(std::move(done)), gone_(table_->Names()) {}

  void Run() {
    loop_.Run([this] {
      store::Query query;
      query.start = start_;
      query.end = PrefixEnd(unknown_.empty() ? std::string(kEventsPrefix) : start_);
      query.limit = unknown_.empty() ? 1 : kMaxRead;
      query.at = revision_;
      store_->Read(std::move(query), [self = shared_from_this()](Result<store::Page> page) {
        if (self->Take(std::move(page)) && self->loop_.Again()) self->Run();
      });
    });
  }

 private:
  // Whether there may be more namespaces.
  bool Take(Result<store::Page> page) {
    if (!page) {
      done_(page.error());
      return false;
    }
    revision_ = page->revision;
    if (!unknown_.empty()) {
      std::optional<Time> oldest;
      for (const store::Entry& entry : page->entries) {
        const std::optional<Time> created = CreationOf(entry);
        if (created && (!oldest || *created < *oldest)) oldest = created;
      }
      Found(std::exchange(unknown_, {}), oldest);
      return true;
    }
    if (page->entries.empty()) {
      Finish();
      return false;
    }
    const std::string name(NamespaceOfKey(page->entries.front().key));
    if (const std::optional<Time> known = table_->Find(name)) {
      Found(name, known);
    } else {
      unknown_ = name;
      start_ = EventKeyPrefix(name);
    }
    return true;
  }

  void Found(const std::string& name, std::optional<Time> created) {
    found_.emplace(name, table_->Insert(name, created));
    gone_.erase(name);
    start_ = PrefixEnd(EventKeyPrefix(name));
  }

  void Finish() {
    for (const std::string_view name : kPermanent) {
      if (!found_.contains(std::string(name))) Found(std::string(name), std::nullopt);
    }
    for (const std::string& name : gone_) table_->Remove(name);
    NamespaceList list{.revision = revision_};
    for (const auto& [name, created] : found_) list.items.push_back({name, created});
    done_(std::move(list));
  }

  store::Store* const store_;
  const std::shared_ptr<Table> table_;
  const std::function<void(Result<NamespaceList>)> done_;
  AsyncLoop loop_;
  std::map<std::string, Time> found_;
  std::set<std::string> gone_;  // known namespaces that have not been found yet
  std::string start_{kEventsPrefix};
  std::string unknown_;           // the new namespace whose events are being read; empty: none
  store::Revision revision_ = 0;  // of the first page; later pages are read at the same revision
};

Namespaces::Namespaces(store::Store* store, WallTime started)
    : store_(store), table_(std::make_shared<Table>(started)) {}

void Namespaces::Read(std::function<void(Result<NamespaceList>)> done) {
  std::make_shared<Scan>(store_, table_, std::move(done))->Run();
}

NamespaceInfo Namespaces::Add(const std::string& name, const store::Entry& first) {
  return {name, table_->Insert(name, CreationOf(first))};
}

void Namespaces::Remove(const std::string& name) { table_->Remove(name); }

std::string NamespaceJson(const NamespaceInfo& info, store::Revision revision) {
  return fmt::format(R"({{"kind":"Namespace","apiVersion":"v1",{}}})", MembersJson(info, revision));
}

std::string NamespaceListJson(const NamespaceList& list) {
  std::string json = fmt::format(
      R"({{"kind":"NamespaceList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}},"items":[)",
      list.revision);
  for (const NamespaceInfo& info : list.items) {
    if (json.back() != '[') json += ',';
    json += '{' + MembersJson(info, list.revision) + '}';
  }
  return json += "]}\n";
}

std::string NamespaceTableJson(const NamespaceList& list, TableObject object, MetaVersion version,
                               bool with_columns, WallTime now) {
  constexpr std::string_view kColumns =
      R"([{"name":"Name","type":"string","format":"name","description":"The name.","priority":0},)"
      R"({"name":"Status","type":"string","format":"","description":"Always Active.","priority":0},)"
      R"({"name":"Age","type":"string","format":"","description":"Since the oldest known event.","priority":0}])";
  std::string json =
      fmt::format(R"({{"kind":"Table","apiVersion":"{}","metadata":{{"resourceVersion":"{}"}},)"
                  R"("columnDefinitions":{},"rows":[)",
                  MetaName(version), list.revision, with_columns ? kColumns : "null");
  for (const NamespaceInfo& info : list.items) {
    if (json.back() != '[') json += ',';
    std::string shown = "null";
    if (object == TableObject::kObject) {
      shown = NamespaceJson(info, list.revision);
    } else if (object == TableObject::kMetadata) {
      shown = fmt::format(R"({{"kind":"PartialObjectMetadata","apiVersion":"{}","metadata":{}}})",
                          MetaName(version), MetadataJson(info, list.revision));
    }
    // An event may be from a machine whose clock is ahead.
    const std::chrono::nanoseconds age =
        std::max(std::chrono::seconds(0),
                 std::chrono::seconds(Time(now).seconds() - info.created.seconds()));
    json += fmt::format(R"({{"cells":["{}","Active","{}"],"object":{}}})", info.name,
                        HumanDuration(age), shown);
  }
  return json += "]}\n";
}

Status NamespaceNotFound(std::string_view name) {
  Status::Parts parts;
  parts.reason = StatusReason::kNotFound;
  parts.message = fmt::format("namespaces \"{}\" not found", name);
  parts.details = StatusDetails{.name = std::string(name), .kind = "namespaces"};
  return Status(std::move(parts));
}

}  // namespace herald::server
