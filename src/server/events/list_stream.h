#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread/fair_queue.h"
#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "server/events/encoding.h"
#include "server/events/event_list.h"
#include "server/events/list_budget.h"
#include "server/request/exchange.h"

namespace herald::server {

// A list to be sent, and what is needed for it.
struct ListAnswer {
  std::shared_ptr<Exchange> exchange{};
  std::shared_ptr<EventListReader> reader{};
  Form form{};
  WallTime now{};  // ages in tables are relative to it
  // The memory that the list is charged for until the client has read all of it.
  std::shared_ptr<ListBudget::Charge> charge{};
  // Set if the client has disconnected; shared with the reader, see ReadContext.
  std::shared_ptr<std::atomic<bool>> cancelled{};
  LogFunction log{};

  std::shared_ptr<void> owner{};  // kept until the list has been sent
  // For lists in YAML, which take long to encode; belongs to `owner`. `flow` is the user's key.
  FairQueue* long_work = nullptr;
  std::uint64_t flow = 0;
};

// The next chunk is read when fewer bytes than this wait for the client. It is large enough that a
// fast client does not wait for the store.
inline constexpr std::size_t kLowWaterBytes = 128 * 1024;
// The largest JSON document that is converted to YAML. The conversion takes about fifteen times as
// much memory.
inline constexpr std::size_t kMaxYamlBytes = 8u << 20;

// Reads, encodes and sends a list, chunk by chunk, as fast as its client reads. All chunks are at
// one revision. If that revision is compacted before a slow client has read everything, the
// response is cut off.
//
//   measuring ---> sending ---> done
//       '---> kept ---'
//
// A list in JSON without a limit is only sent. Other lists begin with something that is known only
// at the end (the length in protobuf, the continue token of a list with a limit), so they are
// measured first. Meanwhile the encoded pieces are kept, and then sent from memory. If the budget
// has no room for them, they are dropped, and the same entries are read and encoded a second time.
// So a list of any length costs a bounded amount of memory.
//
// YAML is converted from the complete document, up to kMaxYamlBytes.
void SendList(ListAnswer answer);

}  // namespace herald::server
