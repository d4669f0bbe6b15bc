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

// Which events somebody wants to see, and whether one is among them. Immutable, hence
// thread-safe.
class EventFilter {
 public:
  EventFilter() = default;
  // All of a namespace, or of all namespaces where it is empty; one name where it is not.
  EventFilter(std::string namespace_, std::string name, const ListOptions& options);

  bool Matches(const Event& event) const;
  // Whether the namespace (and the name) in the key say it all.
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

// On whose behalf a list is read, and what that may cost.
struct ReadContext {
  // See store::Query.
  std::uint64_t flow = 0;
  bool background = false;
  std::shared_ptr<const std::atomic<bool>> cancelled{};
  // What one chunk holds of stored values: by default some hundred events, so that a chunk that is
  // encoded and waits for its reader takes some 150 KB.
  std::size_t chunk_bytes = 64 * 1024;
  // Asked before entries are kept in memory to be sorted: false where there is no room for these
  // bytes. Null: always true.
  std::function<bool(std::size_t bytes)> reserve{};
};

// An EventListReader reads the list that the options ask for, in chunks, all of them as of the
// same revision: the latest, that of the options, or that of a continue token. The cheapest way
// is chosen: one key, an index, or the keys of the namespace. Errors are in Kubernetes' words.
//
// A list in an order that no index has is read as a whole and sorted, if it is short. A long one
// is read in its order, and filtered.
//
// Confined to one thread at a time, callbacks included.
class EventListReader : public std::enable_shared_from_this<EventListReader> {
 public:
  // Candidates that are kept in memory to be sorted: ten thousand events or so.
  static constexpr std::size_t kMaxSortedBytes = 4u << 20;

  // Whether the order of the list matters to whoever reads it.
  enum class Order : bool { kListed, kAny };

  // The store is borrowed and outlives the reader and its reads.
  static Result<std::shared_ptr<EventListReader>> Make(store::Store* store,
                                                       const EventFilter& filter,
                                                       const ListOptions& options,
                                                       ReadContext context,
                                                       Order order = Order::kListed);
  ~EventListReader();

  // Reads the next chunk, which is empty at most at the end. `done` is called exactly once, on a
  // thread of the store or before this returns; the reader is kept until then.
  // REQUIRES: !is_done(), and no other read is under way
  using ChunkDone = std::function<void(Result<std::vector<store::Entry>>)>;
  void Next(ChunkDone done);
  // The limit of the options was reached, or the end of the list.
  bool is_done() const { return done_; }
  bool has_limit() const { return limit_ > 0; }

  // Starts again at the first entry of the list, as of the same revision, so that the same chunks
  // follow. REQUIRES: a chunk was read
  void Rewind();

  // What the list was read at. REQUIRES: a chunk was read
  store::Revision revision() const { return revision_; }
  // The list's metadata: complete where is_done() or where the options have no limit.
  // REQUIRES: a chunk was read
  const ListMeta& metadata() const { return metadata_; }

 private:
  struct Plan;
  struct Start;  // where the options want the list to begin

  EventListReader(store::Store* store, const EventFilter& filter, const ListOptions& options,
                  ReadContext context);

  void ReadChunk(ChunkDone done);
  void Gather(ChunkDone done);
  void EmitSorted(const ChunkDone& done);
  void Read(store::Query query, store::Store::PageDone done);
  Status TooOld() const;
  // Whether the page is as new as the client wants it; notes its revision.
  Status Accept(const store::Page& page);
  void SortAndCut();
  void EndWith(bool more, std::int64_t remaining, const store::Entry* last);

  store::Store* const store_;
  const EventFilter filter_;
  const ReadContext context_;
  const std::size_t limit_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Plan> fallback_;  // where too much would have to be sorted; null: not needed
  std::unique_ptr<Start> start_;

  store::Query next_;           // for the next chunk
  std::size_t limit_left_ = 0;  // of limit_
  bool begun_ = false;
  bool done_ = false;
  bool counted_ = false;
  store::Revision revision_ = 0;
  ListMeta metadata_;

  std::vector<store::Entry> candidates_;  // gathered, then sorted and cut
  std::size_t candidate_bytes_ = 0;
  bool sorted_ = false;
  bool cut_ = false;  // the limit left something out
  std::size_t next_sorted_ = 0;
};

// 504 as reflectors know it: the client has seen a revision that is not here yet. (Upstream
// says when to come back in watches only.)
Status TooLargeResourceVersion(std::uint64_t asked, store::Revision current,
                               std::chrono::seconds retry_after = std::chrono::seconds(0));
// 400: what the client calls a version is none.
Status InvalidResourceVersion(std::string_view text);

}  // namespace herald::server
