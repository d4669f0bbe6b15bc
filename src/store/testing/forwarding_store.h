#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/store.h"

namespace herald::store {

// A store that forwards all calls to another one, which it borrows. Tests override the methods that
// they want to change.
//
// Thread-safe if the other one is.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store* inner) : inner_(inner) {}

  void Commit(Write write, WriteDone done) override {
    inner_->Commit(std::move(write), std::move(done));
  }
  void Get(std::string key, EntryDone done) override {
    inner_->Get(std::move(key), std::move(done));
  }
  std::optional<Entry> Recall(const std::string& key) override { return inner_->Recall(key); }
  void Read(Query query, PageDone done) override {
    inner_->Read(std::move(query), std::move(done));
  }
  void CurrentRevision(std::function<void(Result<Revision>)> done) override {
    inner_->CurrentRevision(std::move(done));
  }
  Result<std::unique_ptr<Watch>> NewWatch(std::string prefix, Revision after,
                                          std::function<void()> ready) override {
    return inner_->NewWatch(std::move(prefix), after, std::move(ready));
  }
  void RefreshLifetimes() override { inner_->RefreshLifetimes(); }
  void AcceptClock() override { inner_->AcceptClock(); }
  void Maintain() override { inner_->Maintain(); }
  Status Health() override { return inner_->Health(); }
  StoreStats Stats() override { return inner_->Stats(); }

 protected:
  Store* const inner_;
};

}  // namespace herald::store
