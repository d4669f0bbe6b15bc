#include "api/protobuf/writer.h"

#include <algorithm>

namespace herald {

void ProtobufWriter::Grow(std::size_t bytes) {
  const std::size_t used = size();
  const std::size_t capacity = std::max(used + bytes, 2 * static_cast<std::size_t>(end_ - begin_));
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  char* const end = larger.get() + capacity;
  std::memcpy(end - used, pos_, used);
  heap_ = std::move(larger);
  begin_ = heap_.get();
  end_ = end;
  pos_ = end - used;
}

}  // namespace herald
