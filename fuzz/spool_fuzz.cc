// Any bytes can be read as a segment of the spool. The records found are written as a segment
// without damage that contains the same records, also if its end is torn.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "record/spool/spool.h"

namespace {

bool Same(const herald::SpoolSegment& a, const herald::SpoolSegment& b) {
  if (a.writes.size() != b.writes.size()) return false;
  for (std::size_t i = 0; i < a.writes.size(); ++i) {
    const herald::SinkRequest& x = a.writes[i].request;
    const herald::SinkRequest& y = b.writes[i].request;
    if (a.writes[i].events != b.writes[i].events || x.verb != y.verb || x.api != y.api ||
        x.patch != y.patch || *x.event != *y.event) {
      return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const herald::SpoolSegment found = herald::ReadSpoolSegment(input);
  if (found.corrupted > size) std::abort();
  std::string bytes(herald::kSpoolMagic);
  for (const herald::SpooledWrite& write : found.writes) bytes += herald::EncodeSpoolRecord(write);
  const herald::SpoolSegment again = herald::ReadSpoolSegment(bytes);
  if (again.corrupted != 0 || again.torn || !Same(found, again)) std::abort();
  const herald::SpoolSegment torn = herald::ReadSpoolSegment(bytes + "ZHR");
  if (torn.corrupted != 0 || !torn.torn || !Same(found, torn)) std::abort();
  return 0;
}
