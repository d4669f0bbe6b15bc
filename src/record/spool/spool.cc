#include "record/spool/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/bytes/crc32c.h"
#include "herald/api/codec.h"

namespace herald {
namespace {

constexpr std::string_view kMarker = "\x5aHR1";
constexpr std::size_t kHeaderBytes = 12;   // marker, length, crc
constexpr std::size_t kPayloadBytes = 10;  // the minimum size of a payload
// More than a server accepts as an event and as a patch, so no record is longer.
constexpr std::size_t kMaxPayload = 2 * kMaxRequestBytes + kPayloadBytes;

// The limit of bytes to checksum in search of intact records, as a multiple of the segment.
// Accidental damage needs hardly any; it limits the cost of a forged segment.
constexpr std::size_t kSearchEffort = 4;

// A smaller spool has room for too few events to be useful.
constexpr std::uint64_t kLeastBytes = 64 << 10;
// So that dropping the oldest segment never drops most of the spool.
constexpr std::uint64_t kLeastSegments = 4;

constexpr std::string_view kSuffix = ".spool";
constexpr std::size_t kNumberDigits = 16;

void PutU32(std::uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

// REQUIRES: bytes.size() >= at + 4
std::uint32_t GetU32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

std::optional<SpooledWrite> DecodePayload(std::string_view payload) {
  if (payload.size() < kPayloadBytes) return std::nullopt;
  const auto verb = static_cast<unsigned char>(payload[0]);
  const auto api = static_cast<unsigned char>(payload[1]);
  SpooledWrite write;
  write.events = GetU32(payload, 2);
  const std::size_t patch_bytes = GetU32(payload, 6);
  payload.remove_prefix(kPayloadBytes);
  if (verb > 1 || api > 1 || write.events == 0 || patch_bytes > payload.size() ||
      (verb == 1) != (patch_bytes > 0)) {
    return std::nullopt;
  }
  SinkRequest& request = write.request;
  request.verb = verb == 0 ? SinkRequest::Verb::kCreate : SinkRequest::Verb::kPatch;
  request.api = api == 0 ? EventApi::kCoreV1 : EventApi::kEventsV1;
  request.patch = payload.substr(0, patch_bytes);
  Result<Event> event = ProtobufCodec().DecodeEvent(payload.substr(patch_bytes), request.api);
  if (!event) return std::nullopt;
  request.event = std::make_shared<const Event>(*std::move(event));
  return write;
}

// Decodes the records of a segment, and finds the next one after damage.
class SegmentReader {
 public:
  explicit SegmentReader(std::string_view bytes)
      : bytes_(bytes), effort_(kSearchEffort * bytes.size()) {}

  SpoolSegment Read() && {
    if (bytes_.starts_with(kSpoolMagic)) {
      at_ = kSpoolMagic.size();
    } else if (kSpoolMagic.starts_with(bytes_)) {
      segment_.torn = !bytes_.empty();
      return std::move(segment_);
    } else if (!Search(0)) {
      ++segment_.corrupted;
      return std::move(segment_);
    }
    while (at_ < bytes_.size()) {
      if (const auto payload = RecordAt(at_)) {
        at_ += kHeaderBytes + payload->size();
        if (auto write = DecodePayload(*payload)) {
          segment_.writes.push_back(*std::move(write));
        } else {
          ++segment_.corrupted;  // intact, but never written by any version
        }
        continue;
      }
      if (Search(at_ + 1)) continue;
      if (IsTornAt(at_)) {
        segment_.torn = true;
      } else {
        ++segment_.corrupted;
      }
      break;
    }
    return std::move(segment_);
  }

 private:
  // The payload of the record at this position; nothing if there is no intact record.
  std::optional<std::string_view> RecordAt(std::size_t at) {
    const std::string_view rest = bytes_.substr(at);
    if (rest.size() < kHeaderBytes || !rest.starts_with(kMarker)) return std::nullopt;
    const std::size_t length = GetU32(rest, 4);
    if (length > kMaxPayload || length > rest.size() - kHeaderBytes) return std::nullopt;
    if (searching_) {
      if (length > effort_) return std::nullopt;
      effort_ -= length;
    }
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    if (Crc32c(payload, Crc32c(rest.substr(4, 4))) != GetU32(rest, 8)) return std::nullopt;
    return payload;
  }

  // Moves to the next intact record at or after `from`. False, and does not move, if there is none.
  bool Search(std::size_t from) {
    searching_ = true;
    std::size_t found = bytes_.find(kMarker, from);
    while (found != std::string_view::npos && !RecordAt(found)) {
      found = bytes_.find(kMarker, found + 1);
    }
    searching_ = false;
    if (found == std::string_view::npos) return false;
    ++segment_.corrupted;
    at_ = found;
    return true;
  }

  bool IsTornAt(std::size_t at) const {
    const std::string_view rest = bytes_.substr(at);
    if (rest.size() < kMarker.size()) return kMarker.starts_with(rest);
    if (!rest.starts_with(kMarker)) return false;
    return rest.size() < kHeaderBytes || GetU32(rest, 4) > rest.size() - kHeaderBytes;
  }

  const std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t effort_;
  bool searching_ = false;
  SpoolSegment segment_;
};

Status FromErrno(std::string_view what, const std::string& path, int error = errno) {
  return Status(StatusReason::kInternalError,
                fmt::format("{} {}: {}", what, path, std::system_category().message(error)));
}

std::optional<std::uint64_t> NumberOf(std::string_view name) {
  if (name.size() != kNumberDigits + kSuffix.size() || !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const char* const end = name.data() + kNumberDigits;
  if (std::from_chars(name.data(), end, number, 16).ptr != end) return std::nullopt;
  return number;
}

SpoolOptions WithDefaults(SpoolOptions options) {
  options.max_bytes = std::max(options.max_bytes, kLeastBytes);
  options.segment_bytes =
      std::clamp<std::uint64_t>(options.segment_bytes, 1, options.max_bytes / kLeastSegments);
  return options;
}

}  // namespace

SpoolSegment ReadSpoolSegment(std::string_view bytes) { return SegmentReader(bytes).Read(); }

std::string EncodeSpoolRecord(const SpooledWrite& write) {
  const SinkRequest& request = write.request;
  std::string record(kMarker);
  record.resize(kHeaderBytes);
  record.push_back(request.verb == SinkRequest::Verb::kPatch ? '\1' : '\0');
  record.push_back(request.api == EventApi::kEventsV1 ? '\1' : '\0');
  PutU32(write.events, &record);
  PutU32(static_cast<std::uint32_t>(request.patch.size()), &record);
  record += request.patch;
  ProtobufCodec().AppendEvent(*request.event, request.api, &record);

  std::string header;
  PutU32(static_cast<std::uint32_t>(record.size() - kHeaderBytes), &header);
  PutU32(Crc32c(std::string_view(record).substr(kHeaderBytes), Crc32c(header)), &header);
  record.replace(kMarker.size(), header.size(), header);
  return record;
}

// An owned file descriptor. Thread-confined.
class Spool::File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  std::uint64_t written() const { return written_; }

  bool Write(std::string_view data) {
    while (!data.empty()) {
      const ssize_t count = write(fd_, data.data(), data.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(count));
      written_ += static_cast<std::uint64_t>(count);
    }
    return true;
  }
  // Removes everything after that many bytes.
  bool CutTo(std::uint64_t bytes) {
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return false;
    if (lseek(fd_, static_cast<off_t>(bytes), SEEK_SET) < 0) return false;
    written_ = bytes;
    return true;
  }
  bool ReadAll(std::string* out) {
    char buffer[64 << 10];
    while (true) {
      const ssize_t count = read(fd_, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      if (count == 0) return true;
      out->append(buffer, static_cast<std::size_t>(count));
    }
  }
  bool Sync() { return fdatasync(fd_) == 0; }

 private:
  const int fd_;
  std::uint64_t written_ = 0;
};

Spool::Spool(SpoolOptions options, FaultHook fault)
    : options_(WithDefaults(std::move(options))), fault_(std::move(fault)) {}

Spool::~Spool() = default;

Result<std::unique_ptr<Spool>> Spool::Open(SpoolOptions options, FaultHook fault) {
  if (options.directory.empty()) {
    return Status(StatusReason::kInvalid, "SpoolOptions::directory must not be empty");
  }
  std::unique_ptr<Spool> spool(new Spool(std::move(options), std::move(fault)));
  const Status status = spool->Scan();
  if (!status.ok()) return status;
  return spool;
}

void Spool::At(std::string_view step) const {
  if (fault_) fault_(step);
}

std::string Spool::PathOf(std::uint64_t number) const {
  return fmt::format("{}/{:016x}{}", options_.directory, number, kSuffix);
}

Status Spool::Scan() {
  const std::string& path = options_.directory;
  At("make directory");
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FromErrno("cannot create the directory of the spool", path);
  }
  directory_ = std::make_unique<File>(path, O_RDONLY | O_DIRECTORY);
  if (!directory_->is_open()) return FromErrno("cannot open the directory of the spool", path);
  At("make lock");
  lock_ = std::make_unique<File>(path + "/LOCK", O_RDWR | O_CREAT);
  if (!lock_->is_open()) return FromErrno("cannot open the lock file of the spool", path);
  if (flock(lock_->fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno("cannot lock the spool", path);
    return Status(StatusReason::kConflict,
                  fmt::format("the spool {} is in use by another process or another sink", path));
  }
  DIR* const entries = opendir(path.c_str());
  if (entries == nullptr) return FromErrno("cannot list the directory of the spool", path);
  while (const dirent* entry = readdir(entries)) {  // NOLINT(concurrency-mt-unsafe): our own DIR
    const auto number = NumberOf(entry->d_name);
    if (!number) continue;
    struct stat about{};
    if (stat(PathOf(*number).c_str(), &about) != 0) continue;
    segments_.push_back({.number = *number, .bytes = static_cast<std::uint64_t>(about.st_size)});
    bytes_ += static_cast<std::uint64_t>(about.st_size);
  }
  closedir(entries);
  std::ranges::sort(segments_, {}, &Segment::number);
  if (!segments_.empty()) next_number_ = segments_.back().number + 1;
  MakeRoom(0);  // max_bytes may be lower than last time
  return Status();
}

Status Spool::StartSegment() {
  const std::string path = PathOf(next_number_);
  At("make segment");
  auto file = std::make_unique<File>(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file->is_open()) return FromErrno("cannot create", path);
  // The number is used from here on, even if the file cannot be written.
  segments_.push_back({.number = next_number_++});
  At("begin segment");
  if (!file->Write(kSpoolMagic)) {
    const Status status = FromErrno("cannot write", path);
    Remove(segments_.size() - 1);
    return status;
  }
  segments_.back().bytes = kSpoolMagic.size();
  bytes_ += kSpoolMagic.size();
  // The name of the file must survive a crash of the machine as well.
  if (options_.sync) directory_->Sync();
  current_ = std::move(file);
  return Status();
}

void Spool::EndSegment() {
  if (!current_) return;
  current_->Sync();
  current_.reset();
  directory_->Sync();
}

bool Spool::MakeRoom(std::uint64_t bytes) {
  while (bytes_ + bytes > options_.max_bytes) {
    // The segment that is being delivered is kept: it will be removed soon anyway.
    const std::size_t oldest = is_taken_ ? 1 : 0;
    if (oldest >= segments_.size()) return false;
    if (oldest + 1 == segments_.size()) EndSegment();
    if (const auto segment = Read(&segments_[oldest])) {
      for (const SpooledWrite& write : segment->writes) dropped_ += write.events;
    }
    Remove(oldest);
  }
  return true;
}

void Spool::Remove(std::size_t index) {
  At("remove segment");
  unlink(PathOf(segments_[index].number).c_str());
  bytes_ -= segments_[index].bytes;
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(index));
}

Status Spool::Append(const SpooledWrite& write) {
  const std::string record = EncodeSpoolRecord(write);
  if (record.size() > kMaxPayload || record.size() + kSpoolMagic.size() > options_.max_bytes) {
    return Status(StatusReason::kRequestEntityTooLarge, "the event is too large for the spool");
  }
  if (current_ && current_->written() + record.size() > options_.segment_bytes) EndSegment();
  if (!MakeRoom(record.size() + kSpoolMagic.size())) {
    return Status(StatusReason::kTooManyRequests, "the spool is full");
  }
  if (!current_) {
    const Status status = StartSegment();
    if (!status.ok()) return status;
  }
  const std::uint64_t before = current_->written();
  const std::string_view bytes = record;
  // For tests that kill the process in the middle of a record.
  const std::size_t half = fault_ ? bytes.size() / 2 : 0;
  At("write record");
  bool good = half == 0 || current_->Write(bytes.substr(0, half));
  At("in a record");
  good = good && current_->Write(bytes.substr(half));
  At("record written");
  if (good && options_.sync) good = current_->Sync();
  if (!good) {
    const Status status = FromErrno("cannot write", PathOf(segments_.back().number));
    // The next record must not follow a part of this one.
    if (!current_->CutTo(before)) {
      segments_.back().bytes = current_->written();
      bytes_ += current_->written() - before;
      current_.reset();
    }
    return status;
  }
  segments_.back().bytes += record.size();
  bytes_ += record.size();
  return Status();
}

std::optional<SpoolSegment> Spool::Read(Segment* segment) {
  // Segments are never larger. Another file with such a name is not read into memory.
  if (segment->bytes > options_.max_bytes) return std::nullopt;
  std::string bytes;
  File file(PathOf(segment->number), O_RDONLY);
  if (!file.is_open() || !file.ReadAll(&bytes)) return std::nullopt;
  SpoolSegment result = ReadSpoolSegment(bytes);
  if (!std::exchange(segment->corruption_counted, true)) corrupted_ += result.corrupted;
  return result;
}

std::optional<SpoolSegment> Spool::Take() {
  while (!segments_.empty()) {
    // Nothing is appended to a segment that is being delivered.
    if (segments_.size() == 1) EndSegment();
    std::optional<SpoolSegment> segment = Read(&segments_.front());
    if (!segment) {
      // It may be readable after a restart. Until then it must not block the others.
      ++corrupted_;
      bytes_ -= segments_.front().bytes;
      segments_.pop_front();
      continue;
    }
    is_taken_ = true;
    if (!segment->writes.empty()) return segment;
    Release();
  }
  return std::nullopt;
}

void Spool::Release() {
  if (!std::exchange(is_taken_, false)) return;
  Remove(0);
}

Status Spool::Sync() {
  if (!current_) return Status();
  if (!current_->Sync() || !directory_->Sync()) {
    return FromErrno("cannot sync", PathOf(segments_.back().number));
  }
  return Status();
}

void Spool::Close() {
  EndSegment();
  lock_.reset();
  directory_.reset();
}

}  // namespace herald
