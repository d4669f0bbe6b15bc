#pragma once

#include <rocksdb/write_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "store/rocks/database.h"
#include "store/rocks/format.h"
#include "store/rocks/key_state.h"
#include "store/rocks/reader.h"
#include "store/rocks/write_queue.h"
#include "store/store.h"

namespace herald::store {

// A BatchBuilder makes the rows of one commit from the writes in it. It keeps the states of the
// keys that the batch has changed so far, so a write sees the effect of the writes before it.
//
// It writes nothing: until the caller has written rows(), the store is unchanged.
//
// Thread-confined.
class BatchBuilder {
 public:
  // All are borrowed. `state` is that of the store before the batch.
  BatchBuilder(const RocksDb* rocks, RocksReader reader, const Schema* schema, const State& state)
      : rocks_(*rocks),
        schema_(*schema),
        reader_(reader),
        first_revision_(state.revision + 1),
        state_(state) {}
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // The state of a key after the writes that were added.
  Result<KeyState> Find(const std::string& key) const;
  // Adds a write whose condition holds, given the state of its key. Returns its revision.
  Revision Add(PendingWrite& pending, const KeyState& old, WallTime now);
  // All rows of the batch. REQUIRES: called once, after all writes were added
  rocksdb::WriteBatch& BuildRows();

  const State& state() const { return state_; }  // after the batch
  const KeyStates& changed_keys() const { return changed_keys_; }
  const std::vector<std::shared_ptr<const Change>>& changes() const { return changes_; }
  // The earliest row of the expiry index that was added.
  WallTime first_expiry_row() const { return first_expiry_row_; }

 private:
  struct Row {
    std::string key;
    std::string value;
  };

  void AddIndexRows(const PendingWrite& pending, const KeyState& old, Revision revision);
  void AddExpiryRow(const std::string& key, const KeyState& old, const KeyState& current,
                    WallTime now);
  void DeleteExpiryRows(const KeyState& old, const std::string& known_row);

  const RocksDb& rocks_;
  const Schema& schema_;
  const RocksReader reader_;
  const Revision first_revision_;  // of this batch
  State state_;
  rocksdb::WriteBatch rows_;
  std::vector<Row> versions_;
  std::vector<Row> index_;
  KeyStates changed_keys_;
  std::vector<std::shared_ptr<const Change>> changes_;
  WallTime first_expiry_row_ = WallTime::max();
};

}  // namespace herald::store
