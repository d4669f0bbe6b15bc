#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread/mutex.h"

namespace herald {

// A SharedBudget divides a fixed amount (of bytes, of requests) among clients as they need it, so
// that a client that wants everything leaves room for the others. A client may take more if it
// then has at most as much as is left:
//
//   taken by this client <= total - taken by all clients          (both with what it asks for)
//
// So one greedy client gets half of the total, n of them get 1 / (n + 1) each, and the same amount
// stays free for the next, who may take any part of it at first. It is not necessary to know how
// many clients there are.
//
// Thread-safe. REQUIRES: outlives its shares
class SharedBudget {
  struct Client {
    std::size_t amount = 0;
    std::size_t shares = 0;
  };
  using Clients = std::map<std::string, Client, std::less<>>;

 public:
  // What a client has taken for one purpose. The destructor returns it. Not thread-safe.
  class Share {
   public:
    Share() = default;
    ~Share() { Reset(); }
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;

    std::size_t amount() const { return amount_; }
    // False, and nothing changes, if there is no room. REQUIRES: made by Take()
    bool Resize(std::size_t amount);
    void Reset();

   private:
    friend class SharedBudget;
    SharedBudget* budget_ = nullptr;
    Clients::iterator client_{};
    std::size_t amount_ = 0;
  };

  explicit SharedBudget(std::size_t total) : total_(total) {}
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  // Nothing if there is no room.
  std::optional<Share> Take(std::string_view client, std::size_t amount);

  std::size_t taken() const;

 private:
  bool HasRoom(std::size_t has, std::size_t more) const REQUIRES(mu_);

  const std::size_t total_;
  mutable Mutex mu_;
  std::size_t taken_ GUARDED_BY(mu_) = 0;
  Clients clients_ GUARDED_BY(mu_);  // those that have a share
};

}  // namespace herald
