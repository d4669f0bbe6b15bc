#pragma once

#include <string_view>

namespace herald {

// The first four bytes of every Kubernetes object in protobuf. A runtime.Unknown follows: the
// type, the object itself, and two fields that nobody uses.
inline constexpr std::string_view kProtobufMagic("k8s\0", 4);

}  // namespace herald
