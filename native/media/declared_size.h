// Where the data of a file ends, according to its first bytes.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

// The position in bytes behind the data, as AVI, Matroska, WebM, AIFF, AU, W64, CAF, SoX and ADX state it at their start; none if
// not stated.
std::optional<std::uint64_t> declared_size(std::span<const std::uint8_t> start) noexcept;

// Whether a WAV file with this start was written without its length, because the writer could not seek back.
bool is_endless_wav(std::span<const std::uint8_t> start) noexcept;

}  // namespace spdl
