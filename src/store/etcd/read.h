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

// An EtcdRead answers one query from etcd: page after page at one revision. The pages are processed
// on the executor, because filters take time and must not block etcd's thread.
//
// etcd has no indexes. A query by index reads all entries of its range and sorts the matching ones.
// It keeps only as many of them as the result needs.
//
// Calls `done` exactly once; with kCancelled if the executor stops first. Thread-confined: only one
// page is processed at a time.
class EtcdRead : public std::enable_shared_from_this<EtcdRead> {
 public:
  using Range = std::function<void(EtcdRange, std::function<void(Result<EtcdPage>)>)>;

  // `schema` and `executor` are borrowed. `range` takes and returns the store's keys, not etcd's.
  static void Start(const Range& range, const Schema* schema, Executor* executor, Query query,
                    Store::PageDone done);
  EtcdRead(Range range, const Schema* schema, Executor* executor, Query query,
           Store::PageDone done);
  ~EtcdRead();

 private:
  // A row of the index.
  struct Row {
    std::string value{};
    Entry entry{};
  };

  void RequestPage();
  void OnPage(Result<EtcdPage> page);
  bool AddEntry(Entry entry);
  void AddIndexRows(const Entry& entry);
  bool ComesBefore(const Row& a, const Row& b) const;
  // Keeps the first `rows` rows in index order.
  void KeepFirst(std::size_t rows);
  void Finish();
  void Answer(Result<Page> page);
  bool is_plain() const { return !query_.by && !query_.filter; }

  const Range range_;
  const Schema* const schema_;
  Executor* const executor_;
  const Query query_;
  Store::PageDone done_;

  // Used by one page at a time.
  std::string next_;
  Revision at_;
  PageMaker page_;
  bool more_ = false;
  std::int64_t count_ = -1;  // of all keys in the range, from the first page
  std::int64_t entries_read_ = 0;
  std::vector<Row> rows_;
  std::int64_t matched_ = 0;
};

}  // namespace herald::store
