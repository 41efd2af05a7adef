// What data looks like that is not what was expected.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace spdl {

// Such as "it looks like gzip; decompress it first", after "; "; empty where the beginning is not known.
std::string describe_beginning(std::span<const std::uint8_t> data);

}  // namespace spdl
