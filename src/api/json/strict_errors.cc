#include "api/json/strict_errors.h"

#include <utility>

namespace herald {

void StrictErrors::Add(std::string error) {
  if (ignored() || !reported_.insert(error).second) return;
  bytes_ += error.size();
  errors_->push_back(std::move(error));
}

}  // namespace herald
