#include "store/store.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace herald::store {

WallTime Schema::ExpiryOf(std::string_view key, std::string_view value, WallTime written_at) const {
  return lifetime ? AddLifetime(written_at, lifetime(key, value)) : WallTime::max();
}

WallTime AddLifetime(WallTime written, std::chrono::seconds lifetime) {
  // Rules may express "forever" by a number that overflows.
  if (lifetime >= std::chrono::floor<std::chrono::seconds>(WallTime::max() - written)) {
    return WallTime::max();
  }
  return written + std::max(lifetime, std::chrono::seconds(1));
}

void Query::ContinueAfter(const Place& place) {
  if (by) {
    by->after_value = place.value;
    by->after_key = place.key;
  } else {
    start = place.key + '\0';
  }
}

void Query::ContinueAfter(const Page& page) {
  at = page.revision;
  ContinueAfter(page.last);
}

std::shared_ptr<void> Change::attachment() const { return std::atomic_load(&attachment_); }

std::shared_ptr<void> Change::Attach(std::shared_ptr<void> attachment) const {
  std::shared_ptr<void> winner;
  if (std::atomic_compare_exchange_strong(&attachment_, &winner, attachment)) return attachment;
  return winner;
}

}  // namespace herald::store
