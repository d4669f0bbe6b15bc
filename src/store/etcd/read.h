#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "herald/base/executor.h"
#include "herald/base/status.h"
#include "store/etcd/client.h"
#include "store/memory/entry_table.h"
#include "store/store.h"

namespace herald::store {

// An EtcdRead answers one query from etcd itself: page after page at one revision, each
// looked at on the executor, for filters take time and etcd's thread has other things to do.
//
// etcd knows keys only. A query by index looks at all entries of its range and sorts what the
// index would have given; it keeps no more of that than the answer needs.
//
// Answers exactly once: with kCancelled where the executor stops first.
class EtcdRead : public std::enable_shared_from_this<EtcdRead> {
 public:
  using Range = std::function<void(EtcdRange, std::function<void(Result<EtcdPage>)>)>;

  // `schema` and `executor` are borrowed. `range` has the store's own keys.
  static void Start(const Range& range, const Schema* schema, Executor* executor, Query query,
                    Store::PageDone done);
  EtcdRead(Range range, const Schema* schema, Executor* executor, Query query,
           Store::PageDone done);
  ~EtcdRead();

 private:
  // What an index would have given.
  struct Row {
    std::string value{};
    Entry entry{};
  };

  void Ask();
  void Take(Result<EtcdPage> page);
  bool TakeEntry(Entry entry);
  void TakeRows(const Entry& entry);
  bool Before(const Row& a, const Row& b) const;
  // Keeps those that come first.
  void Cut(std::size_t rows);
  void Finish();
  void Answer(Result<Page> page);
  bool is_plain() const { return !query_.by && !query_.filter; }

  const Range range_;
  const Schema* const schema_;
  Executor* const executor_;
  const Query query_;
  Store::PageDone done_;

  // One page at a time touches these.
  std::string next_;
  Revision at_;
  PageMaker page_;
  bool more_ = false;
  std::int64_t count_ = -1;  // of all keys, told with the first page
  std::int64_t taken_ = 0;
  std::vector<Row> rows_;
  std::int64_t matched_ = 0;
};

}  // namespace herald::store
