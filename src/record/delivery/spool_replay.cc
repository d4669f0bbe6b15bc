#include "record/delivery/spool_replay.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace herald {

Status SpoolReplay::Append(SinkRequest request, std::uint64_t events) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  return spool_->Append({.request = std::move(request),
                         .events = static_cast<std::uint32_t>(std::min(events, kMax))});
}

std::vector<PlannedWrite> SpoolReplay::TakeSegment() {
  std::vector<PlannedWrite> planned;
  if (!wanted_ || stopped_ || open_ > 0) return planned;
  std::optional<SpoolSegment> segment = spool_->Take();
  wanted_ = segment.has_value();
  if (!segment) return planned;
  writes_.clear();
  open_ = segment->writes.size();
  for (SpooledWrite& write : segment->writes) {
    planned.push_back({.correlation = {.request = write.request}, .replay = writes_.size()});
    writes_.push_back({.write = std::move(write)});
  }
  return planned;
}

SpoolReplay::Next SpoolReplay::End(std::size_t index, bool for_good) {
  writes_[index].ended_for_good = for_good;
  return --open_ == 0 ? EndSegment() : Next::kWait;
}

SpoolReplay::Next SpoolReplay::EndSegment() {
  const auto ended =
      static_cast<std::size_t>(std::ranges::count(writes_, true, &ReplayedWrite::ended_for_good));
  const bool is_all = ended == writes_.size();
  bool may_remove = ended > 0;
  for (const ReplayedWrite& replayed : writes_) {
    if (may_remove && !replayed.ended_for_good) may_remove = spool_->Append(replayed.write).ok();
  }
  // What was appended again must survive a crash of the machine before the segment is removed.
  if (may_remove && !is_all) may_remove = spool_->Sync().ok();
  if (may_remove) {
    spool_->Release();
  } else {
    spool_->PutBack();
  }
  wanted_ = is_all;
  return is_all ? Next::kTakeNow : Next::kTakeLater;
}

}  // namespace herald
