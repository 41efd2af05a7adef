// What encoded data looks like from its first bytes.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spdl {

// The name of the format, or an empty view if none is recognised.
std::string_view sniff_format(std::span<const std::uint8_t> data) noexcept;

}  // namespace spdl
