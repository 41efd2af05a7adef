// Recognises the format of data from its first bytes: the one table of signatures, for images, archives and containers.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace spdl {

// The name of the format, or an empty view if none is recognised. At most the first kSniffedBytes are looked at.
std::string_view sniff_format(std::span<const std::uint8_t> data) noexcept;

inline constexpr std::size_t kSniffedBytes = 64;

// Text to append to a message about unexpected data, such as "; it looks like gzip; decompress it first". Empty if no
// format is recognised.
std::string describe_beginning(std::span<const std::uint8_t> data);

}  // namespace spdl
