#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "herald/base/status.h"
#include "record/delivery/event_write.h"
#include "record/spool/spool.h"

namespace herald {

// A SpoolReplay takes writes back from a spool, one segment at a time, and decides what becomes
// of a segment:
//
//   all writes ended for good   the segment is removed, and the next one is taken at once
//   some did                    the others are appended behind everything else, and the segment
//                               is removed: one event that is never accepted delays no other
//   none did                    the segment stays; the server is not reachable
//
// In the last two cases the next segment is taken when Resume() is called, after kInterval.
//
// Invariant: a write leaves the disk only after it ended for good, or was appended again and
// synced. So each is delivered at least once. That a patch which is delivered late or twice
// lowers no count is the sequencer's part (EventWrite::compares_count).
//
// Thread-confined but for stats(): the sequencer of a sink owns one.
class SpoolReplay {
 public:
  // How long to wait before another round of tries. All tries of a write take about two
  // minutes, and a server that was away for so long is rarely back in less.
  static constexpr std::chrono::minutes kInterval{1};

  // What to do after a write of a segment has ended.
  enum class Next : std::uint8_t {
    kWait,       // for the other writes of the segment
    kTakeNow,    // TakeSegment() may have more
    kTakeLater,  // call Resume() after kInterval
  };

  explicit SpoolReplay(std::unique_ptr<Spool> spool) : spool_(std::move(spool)) {}

  // Puts a write on disk that carries so many recorded events. REQUIRES: events > 0
  Status Append(SinkRequest request, std::uint64_t events);

  // The writes of the oldest segment. Empty if there is none, while the writes of another
  // segment are open, until Resume() where that is needed, and after Stop().
  std::vector<PlannedWrite> TakeSegment();
  // How many recorded events a write of the segment carries.
  std::uint32_t events(std::size_t index) const { return writes_[index].write.events; }
  // A write ended: for good, or it stays in the spool.
  Next End(std::size_t index, bool for_good);
  void Resume() { wanted_ = true; }
  // Nothing is taken any more.
  void Stop() { stopped_ = true; }

  // The epoch of the segment's writes; see FlushTracker.
  std::uint32_t epoch() const { return epoch_; }
  void set_epoch(std::uint32_t epoch) { epoch_ = epoch; }

  // Syncs, and lets another process or sink have the directory. Only stats() may follow.
  void Close() { spool_->Close(); }
  // Any thread.
  Spool::Stats stats() const { return spool_->stats(); }

 private:
  struct ReplayedWrite {
    SpooledWrite write{};
    bool ended_for_good = false;
  };

  Next EndSegment();

  const std::unique_ptr<Spool> spool_;
  std::vector<ReplayedWrite> writes_;  // of the segment that was taken
  std::size_t open_ = 0;               // how many of them have not ended
  std::uint32_t epoch_ = 0;
  bool wanted_ = true;
  bool stopped_ = false;
};

}  // namespace herald
