#include "server/events/list_budget.h"

#include <optional>
#include <utility>

namespace herald::server {

std::shared_ptr<ListBudget::Charge> ListBudget::Begin(std::string_view user) {
  std::optional<SharedBudget::Share> share = bytes_.Take(user, kListBytes);
  if (!share) return nullptr;
  // Not make_shared: the constructor is private.
  return std::shared_ptr<Charge>(new Charge(shared_from_this(), *std::move(share)));
}

}  // namespace herald::server
