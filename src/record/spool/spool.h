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

// A write that could not be delivered, and how many recorded events it carries: a patch of a count
// may carry several.
struct SpooledWrite {
  SinkRequest request{};  // kCreate or kPatch
  std::uint32_t events = 1;
};

// The contents of one segment. Damaged bytes are skipped up to the next intact record, so a bad
// sector loses only the records in it.
struct SpoolSegment {
  std::vector<SpooledWrite> writes{};
  std::uint64_t corrupted = 0;  // damaged places that were skipped
  bool torn = false;            // ends in the middle of a record, as a crash leaves it
};

// Decodes a segment. Never fails. The work is linear in the number of bytes.
SpoolSegment ReadSpoolSegment(std::string_view bytes);

// The bytes of one record, and the first bytes of a segment. Public for tests.
std::string EncodeSpoolRecord(const SpooledWrite& write);
inline constexpr std::string_view kSpoolMagic = "HRLDSPL1";

// A Spool keeps on disk the writes that could not be delivered, across restarts of the process.
//
// It is a directory of segments, `<16 hex digits>.spool`, with increasing numbers. A segment is
// appended to by one process and never changed afterwards. A new process starts a new segment, so
// only the end of a segment can be torn. A segment is:
//
//   "HRLDSPL1"
//   record*:  0x5a 0x48 0x52 0x31   marks the start of a record; searched for after damage
//             length  u32           of the payload
//             crc     u32           CRC-32C of length and payload
//             payload
//   payload:  verb    u8            0 create, 1 patch
//             api     u8            0 v1, 1 events.k8s.io/v1
//             events  u32           how many recorded events it carries
//             size    u32           of the patch
//             patch, then the whole event in Kubernetes' protobuf, in the form of `api`
//
// All numbers are little-endian. doc/spool_format.md has an example.
//
// 1. When Append() returns OK, the kernel has the record: it survives any crash of the
//    process. To survive a crash of the machine, a segment is synced when it is full and
//    by Sync(), or after each record with SpoolOptions::sync.
// 2. A segment is removed, by one unlink, only by Release() or to make room. So a write may
//    be delivered twice, but none is forgotten. A second create of a name meets
//    AlreadyExists, and a patch is sent only if the server's count is lower (Delivery),
//    so twice does no harm.
// 3. The directory never exceeds max_bytes. The oldest segments are dropped first, and
//    their events are counted.
// 4. One Spool at a time uses the directory: it locks the file LOCK.
//
// Thread-confined except stats(): the sequencer of a sink owns one.
class Spool {
 public:
  // Called before each step that changes the disk, with the name of the step, and once in the
  // middle of each record. For tests, which kill the process there.
  using FaultHook = std::function<void(std::string_view step)>;

  // Statistics of the directory.
  struct Stats {
    std::uint64_t bytes = 0;      // on disk now
    std::uint64_t dropped = 0;    // events that were dropped to make room
    std::uint64_t corrupted = 0;  // damaged places that were skipped
  };

  // Creates the directory if its parent exists. Returns kConflict if another process, or another
  // sink of this process, uses it.
  static Result<std::unique_ptr<Spool>> Open(SpoolOptions options, FaultHook fault = nullptr);
  // As Close(), but does not sync.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Appends a write. After an error, nothing was appended.
  Status Append(const SpooledWrite& write);

  // Returns the oldest segment, which stays on disk until Release(). Nothing if there is none that
  // can be read. Take() returns the same segment until it is released.
  std::optional<SpoolSegment> Take();
  // Removes the segment of the last Take(): it was delivered.
  void Release();
  // The segment was not delivered, and may be dropped to make room again.
  void PutBack() { is_taken_ = false; }

  bool empty() const { return segments_.empty(); }

  // Makes appended writes survive a crash of the machine.
  Status Sync();

  // Syncs, and unlocks the directory. Only stats() may be called afterwards.
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
  // Nothing if the file cannot be read.
  std::optional<SpoolSegment> Read(Segment* segment);
  void At(std::string_view step) const;

  const SpoolOptions options_;
  const FaultHook fault_;
  std::unique_ptr<File> directory_;
  std::unique_ptr<File> lock_;
  std::unique_ptr<File> current_;  // the file of segments_.back(), to append to
  std::deque<Segment> segments_;   // by number
  std::uint64_t next_number_ = 1;
  bool is_taken_ = false;  // segments_.front() is being delivered
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> corrupted_{0};
};

}  // namespace herald
