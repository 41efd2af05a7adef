// Entries of zip archives and the pixels of PNG inflated in one go, and their checksums, by libdeflate.
//
// In a build without libdeflate these functions report failure, and the caller uses another library. zlib accepts data
// in parts; libdeflate needs all of the data and all memory for the result at once, and takes half the time. Its CRC-32
// uses the processor's carry-less multiplication. Plain functions, thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace spdl {

// Empty if this build has none.
std::string_view libdeflate_version() noexcept;

// The file that libdeflate was loaded from; empty if unknown or if this build has none.
const char* libdeflate_path() noexcept;

// Whether raw deflate data (RFC 1951) gave exactly `out.size()` bytes. Data after the stream is ignored. If false, the
// contents of `out` are unspecified, and the data may still be good: always false without libdeflate or without memory.
bool inflate(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept;

// The same for zlib's format (RFC 1950), and checks its checksum. Returns that checksum, Adler-32, of `out`; none if
// not inflated.
std::optional<std::uint32_t> inflate_zlib(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept;

// The same for data that gives `out.size()` bytes or fewer. Returns how many; none if not inflated.
std::optional<std::size_t> inflate_zlib_up_to(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept;

// CRC-32 as in zip archives; none if this build has no libdeflate.
std::optional<std::uint32_t> crc32(std::span<const std::uint8_t> data) noexcept;

}  // namespace spdl
