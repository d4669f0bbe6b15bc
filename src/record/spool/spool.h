#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/status.h"
#include "herald/record/broadcaster.h"
#include "herald/record/sink.h"

namespace herald {

// A write that could not be made, and how many recorded events it stands for: a patch
// that says "12 times" may carry several.
struct SpooledWrite {
  SinkRequest request{};  // kCreate or kPatch
  std::uint32_t events = 1;
};

// What there is to read in one segment. Damaged bytes are passed over up to the next
// record that is whole, so one bad sector costs what was in it and no more.
struct SpoolSegment {
  std::vector<SpooledWrite> writes{};
  std::uint64_t corrupted = 0;  // damaged places that were passed over
  bool torn = false;            // ends in the middle of a record, as a crash leaves it
};

// Reads the bytes of a segment; never fails. The work is linear in the bytes.
SpoolSegment ReadSpoolSegment(std::string_view bytes);

// The bytes of one record, and those that a segment begins with. Public for tests.
std::string EncodeSpoolRecord(const SpooledWrite& write);
inline constexpr std::string_view kSpoolMagic = "HRLDSPL1";

// A Spool keeps on disk what a sink could not be told, across restarts of the process.
//
// A directory of segments, `<16 hex digits>.spool`, numbered upwards. Each is written
// from its beginning to its end by one process and never changed afterwards; who
// starts anew starts a new segment, so only the end of one can be torn. A segment is:
//
//   "HRLDSPL1"
//   record*:  0x5a 0x48 0x52 0x31   marks a beginning; what is sought after damage
//             length  u32           of the payload
//             crc     u32           CRC-32C of length and payload
//             payload
//   payload:  verb    u8            0 create, 1 patch
//             api     u8            0 v1, 1 events.k8s.io/v1
//             events  u32           how many recorded events it stands for
//             size    u32           of the patch
//             patch, then the whole event in Kubernetes' protobuf, spelled as `api`
//
// all numbers little-endian. doc/spool_format.md says the same with an example.
//
// 1. Append() returns OK when the record is with the kernel: it survives the death of
//    the process, whatever kills it. To survive that of the machine, a segment is
//    synced when it is full and by Sync(); with SpoolOptions::sync, after each record.
// 2. A segment is removed, by one unlink, only after Release(); what it held may then
//    be delivered twice, but never not at all. A second create of a name meets
//    AlreadyExists, and a patch is sent only if the server's count is lower (Delivery),
//    so twice does no harm.
// 3. There are never more than max_bytes. The oldest segments go first, counted.
// 4. One process at a time: the file LOCK is locked as long as the Spool is there.
//
// Thread-confined but for stats(): the sequencer of a sink owns one.
class Spool {
 public:
  // Called before each step that changes what is on disk, with the name of the step,
  // and once in the middle of each record. For tests, which die there.
  using FaultHook = std::function<void(std::string_view step)>;

  // What happened on disk, besides the outcomes of events.
  struct Stats {
    std::uint64_t bytes = 0;      // on disk now
    std::uint64_t dropped = 0;    // events that went to make room
    std::uint64_t corrupted = 0;  // damaged places that were passed over
  };

  // Makes the directory if only its last part is missing. kConflict if another process,
  // or another sink of this one, has it.
  static Result<std::unique_ptr<Spool>> Open(SpoolOptions options, FaultHook fault = nullptr);
  // As Close(), without a sync.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Keeps a write. On an error nothing was kept.
  Status Append(const SpooledWrite& write);

  // The oldest segment, which stays on disk; nothing if there is none, or if only such
  // are left that cannot be read. While it is not released, Take() gives it again.
  std::optional<SpoolSegment> Take();
  // What the last Take() gave is delivered.
  void Release();
  // It is not, and may be dropped to make room again.
  void PutBack() { is_taken_ = false; }

  bool empty() const { return segments_.empty(); }

  // Lets what was appended survive the death of the machine.
  Status Sync();

  // Syncs, and lets another have the directory. Only stats() may follow.
  void Close();

  // Any thread.
  Stats stats() const { return {bytes_, dropped_, corrupted_}; }

 private:
  struct Segment {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    bool corruption_counted = false;
  };
  class File;

  Spool(SpoolOptions options, FaultHook fault);
  Status Scan();
  std::string PathOf(std::uint64_t number) const;
  Status StartSegment();
  void EndSegment();
  bool MakeRoom(std::uint64_t bytes);
  void Remove(std::size_t index);
  // Nothing if it cannot be read at all.
  std::optional<SpoolSegment> Read(Segment* segment);
  void At(std::string_view step) const;

  const SpoolOptions options_;
  const FaultHook fault_;
  std::unique_ptr<File> directory_;
  std::unique_ptr<File> lock_;
  std::unique_ptr<File> current_;  // what Append() writes to: segments_.back()
  std::deque<Segment> segments_;   // by number
  std::uint64_t next_number_ = 1;
  bool is_taken_ = false;  // segments_.front() is being delivered
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> corrupted_{0};
};

}  // namespace herald
