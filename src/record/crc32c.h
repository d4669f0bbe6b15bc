#pragma once

#include <cstdint>
#include <string_view>

namespace herald {

// CRC-32C (Castagnoli), as iSCSI and most storage formats have it: finds every error
// of up to 3 bits and every burst of up to 32 in a record of ours. It is no protection
// against somebody who wants to deceive.
//
// `crc` is the checksum of what comes before, so that pieces can be summed one by one.
std::uint32_t Crc32c(std::string_view data, std::uint32_t crc = 0);

}  // namespace herald
