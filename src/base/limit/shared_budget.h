#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread/mutex.h"

namespace herald {

// A SharedBudget divides a fixed amount (of bytes, of requests) among clients, so that one client
// cannot take all of it. A client may take more if it then has at most as much as is left:
//
//   taken by this client <= total - taken by all clients          (both including the requested
//   amount)
//
// So one greedy client gets half of the total, n of them get 1 / (n + 1) each, and the same amount
// is free for the next client. The number of clients need not be known.
//
// Thread-safe. REQUIRES: outlives its shares
class SharedBudget {
  struct Client {
    std::size_t amount = 0;
    std::size_t shares = 0;
  };
  using Clients = std::map<std::string, Client, std::less<>>;

 public:
  // An amount that a client has taken. The destructor returns it. Thread-confined.
  class Share {
   public:
    Share() = default;
    ~Share() { Reset(); }
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;

    std::size_t amount() const { return amount_; }
    // Returns false, and changes nothing, if there is not enough left. REQUIRES: returned by Take()
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

  // nullopt if there is not enough left.
  std::optional<Share> Take(std::string_view client, std::size_t amount);

  std::size_t taken() const;

 private:
  bool HasRoom(std::size_t has, std::size_t more) const REQUIRES(mu_);

  const std::size_t total_;
  mutable Mutex mu_;
  std::size_t taken_ GUARDED_BY(mu_) = 0;
  Clients clients_ GUARDED_BY(mu_);  // clients with a share
};

}  // namespace herald
