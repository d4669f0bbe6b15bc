#include "server/namespaces.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "server/async_loop.h"
#include "server/stored_event.h"

namespace herald::server {
namespace {

constexpr std::array<std::string_view, 2> kAlwaysThere = {"default", "kube-system"};

// A uid that is the same wherever and whenever one asks: nothing is stored that could
// remember one. Shaped as a UUID of version 8, "whatever the implementor likes".
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

// The names are DNS labels, so nothing in them needs an escape.
std::string MetadataJson(std::string_view name, store::Revision revision) {
  return fmt::format(R"({{"name":"{}","uid":"{}","resourceVersion":"{}","labels":)"
                     R"({{"kubernetes.io/metadata.name":"{}"}}}})",
                     name, UidOf(name), revision, name);
}

std::string MembersJson(std::string_view name, store::Revision revision) {
  return fmt::format(
      R"("metadata":{},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}})",
      MetadataJson(name, revision));
}

std::string_view MetaName(MetaVersion version) {
  return version == MetaVersion::kV1 ? "meta.k8s.io/v1" : "meta.k8s.io/v1beta1";
}

// Skips from namespace to namespace, one key each.
class Scan : public std::enable_shared_from_this<Scan> {
 public:
  Scan(store::Store* store, std::function<void(Result<NamespaceList>)> done)
      : store_(store), done_(std::move(done)), names_(kAlwaysThere.begin(), kAlwaysThere.end()) {}

  void Run() {
    loop_.Run([this] {
      store::Query query;
      query.start = start_;
      query.end = PrefixEnd(kEventsPrefix);
      query.limit = 1;
      query.at = revision_;
      store_->Read(std::move(query), [self = shared_from_this()](Result<store::Page> page) {
        if (self->Take(std::move(page)) && self->loop_.Again()) self->Run();
      });
    });
  }

 private:
  // Whether there may be more.
  bool Take(Result<store::Page> page) {
    if (!page) {
      done_(page.error());
      return false;
    }
    revision_ = page->revision;
    if (page->entries.empty()) {
      NamespaceList list;
      list.names.assign(names_.begin(), names_.end());
      list.revision = revision_;
      done_(std::move(list));
      return false;
    }
    const std::string name(NamespaceOfKey(page->entries.front().key));
    names_.insert(name);
    start_ = PrefixEnd(EventKeyPrefix(name));
    return true;
  }

  store::Store* const store_;
  const std::function<void(Result<NamespaceList>)> done_;
  AsyncLoop loop_;
  std::set<std::string> names_;
  std::string start_{kEventsPrefix};
  store::Revision revision_ = 0;  // of the first page; the others are read there, too
};

}  // namespace

void ReadNamespaces(store::Store* store, std::function<void(Result<NamespaceList>)> done) {
  std::make_shared<Scan>(store, std::move(done))->Run();
}

std::string NamespaceJson(std::string_view name, store::Revision revision) {
  return fmt::format(R"({{"kind":"Namespace","apiVersion":"v1",{}}})", MembersJson(name, revision));
}

std::string NamespaceListJson(const NamespaceList& list) {
  std::string json = fmt::format(
      R"({{"kind":"NamespaceList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}},"items":[)",
      list.revision);
  for (const std::string& name : list.names) {
    if (json.back() != '[') json += ',';
    json += '{' + MembersJson(name, list.revision) + '}';
  }
  return json += "]}\n";
}

std::string NamespaceTableJson(const NamespaceList& list, TableObject object, MetaVersion version,
                               bool with_columns) {
  constexpr std::string_view kColumns =
      R"([{"name":"Name","type":"string","format":"name","description":"The name.","priority":0},)"
      R"({"name":"Status","type":"string","format":"","description":"Always Active.","priority":0},)"
      R"({"name":"Age","type":"string","format":"","description":"Not known.","priority":0}])";
  std::string json =
      fmt::format(R"({{"kind":"Table","apiVersion":"{}","metadata":{{"resourceVersion":"{}"}},)"
                  R"("columnDefinitions":{},"rows":[)",
                  MetaName(version), list.revision, with_columns ? kColumns : "null");
  for (const std::string& name : list.names) {
    if (json.back() != '[') json += ',';
    std::string shown = "null";
    if (object == TableObject::kObject) {
      shown = NamespaceJson(name, list.revision);
    } else if (object == TableObject::kMetadata) {
      shown = fmt::format(R"({{"kind":"PartialObjectMetadata","apiVersion":"{}","metadata":{}}})",
                          MetaName(version), MetadataJson(name, list.revision));
    }
    json += fmt::format(R"({{"cells":["{}","Active","<unknown>"],"object":{}}})", name, shown);
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
