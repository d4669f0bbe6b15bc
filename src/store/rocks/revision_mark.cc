#include "store/rocks/revision_mark.h"

#include <fmt/core.h>
#include <rocksdb/env.h>

#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "base/bytes/crc32c.h"
#include "store/rocks/database.h"

namespace herald::store {
namespace {

// "acknowledged revision 1234 crc32c 0a1b2c3d\n": readable with cat. The checksum covers everything
// before " crc32c ".
constexpr std::string_view kBegin = "acknowledged revision ";
constexpr std::string_view kSeal = " crc32c ";

// In bytes; longer than any mark.
constexpr std::size_t kMaxBytes = 128;

std::string Encode(Revision revision) {
  const std::string body = fmt::format("{}{}", kBegin, revision);
  return fmt::format("{}{}{:08x}\n", body, kSeal, Crc32c(body));
}

std::optional<Revision> Decode(std::string_view bytes) {
  if (!bytes.starts_with(kBegin)) return std::nullopt;
  const std::string_view number = bytes.substr(kBegin.size());
  Revision revision = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), revision);
  // Encoding the revision again also checks the checksum and the rest.
  if (error != std::errc() || revision < 0 || Encode(revision) != bytes) return std::nullopt;
  return revision;
}

}  // namespace

Status WriteRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision revision) {
  const std::string name = (directory / kRevisionMarkFile).string();
  const std::string next = name + ".tmp";
  rocksdb::Status status =
      rocksdb::WriteStringToFile(env, Encode(revision), next, /*should_sync=*/true);
  if (status.ok()) status = env->RenameFile(next, name);
  std::unique_ptr<rocksdb::Directory> renamed_in;
  if (status.ok()) status = env->NewDirectory(directory.string(), &renamed_in);
  if (status.ok()) status = renamed_in->Fsync();
  return FromRocks(status);
}

Result<std::optional<Revision>> ReadRevisionMark(rocksdb::Env* env,
                                                 const std::filesystem::path& directory) {
  const std::string name = (directory / kRevisionMarkFile).string();
  const rocksdb::Status exists = env->FileExists(name);
  if (exists.IsNotFound()) return std::optional<Revision>();
  std::unique_ptr<rocksdb::SequentialFile> file;
  rocksdb::Status status = env->NewSequentialFile(name, &file, rocksdb::EnvOptions());
  std::array<char, kMaxBytes> buffer{};
  rocksdb::Slice bytes;
  if (status.ok()) status = file->Read(buffer.size(), &bytes, buffer.data());
  if (!status.ok()) return FromRocks(status);
  const std::optional<Revision> revision = Decode(ToView(bytes));
  if (!revision) {
    return Status(StatusReason::kCorruption, fmt::format("the file {} is damaged", name));
  }
  return revision;
}

Status CheckRevisionMark(rocksdb::Env* env, const std::filesystem::path& directory,
                         Revision recovered) {
  const Result<std::optional<Revision>> read = ReadRevisionMark(env, directory);
  if (!read) {
    if (!read.error().Is(StatusReason::kCorruption)) return read.error();
    return Status(StatusReason::kCorruption,
                  fmt::format("{}, so it is unknown whether acknowledged events are missing after "
                              "revision {}: restore a backup, or run `heraldd accept-loss` to "
                              "continue with what is there",
                              read.error().message(), recovered));
  }
  const Revision marked = read->value_or(0);
  if (marked <= recovered) return Status();
  return Status(StatusReason::kCorruption,
                fmt::format("the data directory {} ends at revision {}, but revision {} was "
                            "acknowledged, so a write-ahead log was deleted or truncated: put it "
                            "back, restore a backup, or run `heraldd accept-loss` to continue "
                            "without the lost events",
                            directory.string(), recovered, marked));
}

}  // namespace herald::store
