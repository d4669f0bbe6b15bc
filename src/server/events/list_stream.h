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

// A list that is to be sent.
struct ListAnswer {
  std::shared_ptr<Exchange> exchange{};
  std::shared_ptr<EventListReader> reader{};
  Form form{};
  WallTime now{};  // what ages in tables are counted from
  // What the list is charged for its memory until the client has taken all of it.
  std::shared_ptr<ListBudget::Charge> charge{};
  // Set where the client has gone; the reader's own, see ReadContext.
  std::shared_ptr<std::atomic<bool>> cancelled{};
  LogFunction log{};

  std::shared_ptr<void> owner{};  // kept until the list has been sent
  // For lists in YAML, which take long to encode; of the owner. `flow` says whose it is.
  FairQueue* long_work = nullptr;
  std::uint64_t flow = 0;
};

// What may wait for the client before the next chunk is read: enough that a fast client does not
// wait for the store.
inline constexpr std::size_t kLowWaterBytes = 128 * 1024;
// The longest document, in JSON, that YAML is made of. It takes some fifteen times as much memory
// while that is done.
inline constexpr std::size_t kMaxYamlBytes = 8u << 20;

// Reads, encodes and sends a list, chunk by chunk, as fast as its client reads: the next chunk is
// read when less than kLowWaterBytes wait for the client. All chunks are as of one revision. If
// that revision is compacted before a slow client has reached the end, the answer is cut off.
//
//   measuring ---> sending ---> done
//       '---> kept ---'
//
// A list in JSON without a limit is only sent. Others begin with something that is known only at
// the end, the length in protobuf or the continue token of a list with a limit, so they are
// measured first. What was encoded is kept meanwhile and sent from there, while the budget
// has room for it. If it has not, it is dropped, and the same entries are read and encoded once
// more. So a list of any length costs a bounded amount of memory.
//
// YAML is made from the whole document, up to kMaxYamlBytes.
void SendList(ListAnswer answer);

}  // namespace herald::server
