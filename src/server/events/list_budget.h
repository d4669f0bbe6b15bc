#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "base/limit/shared_budget.h"

namespace herald::server {

// A ListBudget limits the memory of all lists that are being read, encoded or sent, and divides it
// among users (SharedBudget). A client that requests lists and does not read them cannot use more
// than its share.
//
// Thread-safe.
class ListBudget : public std::enable_shared_from_this<ListBudget> {
 public:
  // Charged for every list from beginning to end: a chunk as it was read, its encoding, the piece
  // before it, which the client may not have read yet, and gzip's window.
  static constexpr std::size_t kListBytes = 512 * 1024;
  // Enough for 512 lists at a time, or for fewer that keep more.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  // The charge of one list, returned when it is destroyed. Thread-confined.
  class Charge {
   public:
    // False if there is no room; then nothing is added.
    bool Grow(std::size_t bytes) { return share_.Resize(share_.amount() + bytes); }
    // REQUIRES: as many were added by Grow()
    void Shrink(std::size_t bytes) { share_.Resize(share_.amount() - bytes); }

   private:
    friend class ListBudget;
    Charge(std::shared_ptr<ListBudget> budget, SharedBudget::Share share)
        : budget_(std::move(budget)), share_(std::move(share)) {}

    const std::shared_ptr<ListBudget> budget_;  // outlives the share
    SharedBudget::Share share_;
  };

  explicit ListBudget(std::size_t max_bytes = kMaxBytes) : bytes_(max_bytes) {}

  // Begins a list with kListBytes. Null if there is no room for one more.
  std::shared_ptr<Charge> Begin(std::string_view user);

  // The sum over all lists.
  std::size_t bytes() const { return bytes_.taken(); }

 private:
  SharedBudget bytes_;
};

}  // namespace herald::server
