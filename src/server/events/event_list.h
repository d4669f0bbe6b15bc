#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "herald/api/event.h"
#include "herald/api/object_meta.h"
#include "herald/base/status.h"
#include "server/request/request_options.h"
#include "store/store.h"

namespace herald::server {

// Selects events by namespace, name, selectors and time. Immutable, hence thread-safe.
class EventFilter {
 public:
  EventFilter() = default;
  // An empty namespace_ selects all namespaces, an empty name all names.
  EventFilter(std::string namespace_, std::string name, const ListOptions& options);

  bool Matches(const Event& event) const;
  // Whether the filter selects by nothing but the namespace and the name, which are in the key.
  bool matches_all() const { return all_; }

  const std::string& namespace_() const { return name_space_; }
  const std::string& name() const { return name_; }
  const FieldSelector& fields() const { return fields_; }
  const std::optional<Timestamp>& since() const { return since_; }
  const std::optional<Timestamp>& until() const { return until_; }

 private:
  std::string name_space_;
  std::string name_;
  LabelSelector labels_;
  FieldSelector fields_;
  std::optional<Timestamp> since_;
  std::optional<Timestamp> until_;
  bool all_ = true;
};

// For whom a list is read, and its limits.
struct ReadContext {
  // See store::Query.
  std::uint64_t flow = 0;
  bool background = false;
  std::shared_ptr<const std::atomic<bool>> cancelled{};
  // Bytes of stored values in one chunk: by default about a hundred events, so that an encoded
  // chunk that waits for its reader takes about 150 KB.
  std::size_t chunk_bytes = 64 * 1024;
  // Called before entries are kept in memory for sorting. Returns false if there is no room for
  // these bytes. Null: always true.
  std::function<bool(std::size_t bytes)> reserve{};
};

// An EventListReader reads a list in chunks, all of them at the same revision: the latest, that of
// the options, or that of a continue token. It chooses the cheapest way: one key, an index, or the
// keys of the namespace. Errors have Kubernetes' messages.
//
// If the best index does not have the order of the list, all its candidates are read and sorted. If
// they are too many, the list is read in its order and filtered.
//
// Confined to one thread at a time, callbacks included.
class EventListReader : public std::enable_shared_from_this<EventListReader> {
 public:
  // Limit on the candidates that are kept in memory for sorting: about ten thousand events.
  static constexpr std::size_t kMaxSortedBytes = 4u << 20;

  // Whether the reader of the list needs its order.
  enum class Order : bool { kListed, kAny };

  // The store is borrowed and outlives the reader and its reads.
  static Result<std::shared_ptr<EventListReader>> Make(store::Store* store,
                                                       const EventFilter& filter,
                                                       const ListOptions& options,
                                                       ReadContext context,
                                                       Order order = Order::kListed);
  ~EventListReader();

  // Reads the next chunk. Only the last one may be empty. `done` is called exactly once, on a
  // thread of the store or before this returns; the reader is kept alive until then. REQUIRES:
  // !is_done(), and no other read is in progress
  using ChunkDone = std::function<void(Result<std::vector<store::Entry>>)>;
  void Next(ChunkDone done);
  // The limit of the options was reached, or the end of the list.
  bool is_done() const { return done_; }
  bool has_limit() const { return limit_ > 0; }

  // Starts again at the first entry of the list, as of the same revision, so that the same chunks
  // follow. REQUIRES: a chunk was read
  void Rewind();

  // The revision of the list. REQUIRES: a chunk was read
  store::Revision revision() const { return revision_; }
  // The list's metadata: complete if is_done() or if the options have no limit.
  // REQUIRES: a chunk was read
  const ListMeta& metadata() const { return metadata_; }

 private:
  struct Plan;
  struct Start;  // where the list begins, by the options

  EventListReader(store::Store* store, const EventFilter& filter, const ListOptions& options,
                  ReadContext context);

  void ReadChunk(ChunkDone done);
  void Gather(ChunkDone done);
  void EmitSorted(const ChunkDone& done);
  void Read(store::Query query, store::Store::PageDone done);
  Status TooOld() const;
  // Stores the page's revision. An error if it is older than the options require.
  Status Accept(const store::Page& page);
  void SortAndCut();
  void EndWith(bool more, std::int64_t remaining, const store::Entry* last);

  store::Store* const store_;
  const EventFilter filter_;
  const ReadContext context_;
  const std::size_t limit_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Plan> fallback_;  // if too much would have to be sorted; null: not needed
  std::unique_ptr<Start> start_;

  store::Query next_;           // for the next chunk
  std::size_t limit_left_ = 0;  // of limit_
  bool begun_ = false;
  bool done_ = false;
  bool counted_ = false;
  store::Revision revision_ = 0;
  ListMeta metadata_;

  std::vector<store::Entry> candidates_;  // collected, then sorted and cut
  std::size_t candidate_bytes_ = 0;
  bool sorted_ = false;
  bool cut_ = false;  // the limit left something out
  std::size_t next_sorted_ = 0;
};

// 504 as reflectors expect it: the client has seen a revision that the store has not reached.
// (Upstream sends retry_after for watches only.)
Status TooLargeResourceVersion(std::uint64_t asked, store::Revision current,
                               std::chrono::seconds retry_after = std::chrono::seconds(0));
// 400: the resource version is not a number.
Status InvalidResourceVersion(std::string_view text);

}  // namespace herald::server
