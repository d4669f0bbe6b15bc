#include "base/limit/shared_budget.h"

#include <utility>

namespace herald {

SharedBudget::Share& SharedBudget::Share::operator=(Share&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(client_, other.client_);
  std::swap(amount_, other.amount_);
  return *this;
}

bool SharedBudget::Share::Resize(std::size_t amount) {
  const MutexLock lock(budget_->mu_);
  Client& client = client_->second;
  if (amount > amount_ && !budget_->HasRoom(client.amount, amount - amount_)) return false;
  client.amount += amount - amount_;
  budget_->taken_ += amount - amount_;
  amount_ = amount;
  return true;
}

void SharedBudget::Share::Reset() {
  if (budget_ == nullptr) return;
  SharedBudget& budget = *std::exchange(budget_, nullptr);
  const MutexLock lock(budget.mu_);
  budget.taken_ -= amount_;
  client_->second.amount -= std::exchange(amount_, 0);
  if (--client_->second.shares == 0) budget.clients_.erase(client_);
}

std::optional<SharedBudget::Share> SharedBudget::Take(std::string_view client, std::size_t amount) {
  const MutexLock lock(mu_);
  auto found = clients_.find(client);
  if (!HasRoom(found != clients_.end() ? found->second.amount : 0, amount)) return std::nullopt;
  if (found == clients_.end()) found = clients_.emplace(client, Client()).first;
  found->second.amount += amount;
  ++found->second.shares;
  taken_ += amount;
  Share share;
  share.budget_ = this;
  share.client_ = found;
  share.amount_ = amount;
  return share;
}

std::size_t SharedBudget::taken() const {
  const MutexLock lock(mu_);
  return taken_;
}

bool SharedBudget::HasRoom(std::size_t has, std::size_t more) const {
  const std::size_t left = total_ - taken_;
  return more <= left && (has == 0 || has + more <= left - more);
}

}  // namespace herald
