// Entries of zip archives and the pixels of PNG inflated in one go, and their checksums, by libdeflate.
//
// A build without libdeflate says that it could not: the caller then uses another library. zlib accepts data in parts;
// libdeflate needs all of the data and of the memory for the result, and takes half the time.
// Its CRC-32 uses the processor's carry-less multiplication.
// Plain functions, thread-safe.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace spdl {

// Empty: this build has none.
std::string_view libdeflate_version() noexcept;

// The file that libdeflate was loaded from; empty: unknown, or this build has none.
const char* libdeflate_path() noexcept;

// Whether raw deflate data (RFC 1951) gave exactly as many bytes as `out` has. What follows the stream is ignored. If
// not, `out` has unspecified contents, and the data may still be good: always false without libdeflate or memory.
bool inflate(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept;

// The same for zlib's format (RFC 1950), whose checksum is compared: that checksum, Adler-32, of `out`. Nothing: not inflated.
std::optional<std::uint32_t> inflate_zlib(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept;

// CRC-32 as in zip archives. Nothing: this build has no libdeflate.
std::optional<std::uint32_t> crc32(std::span<const std::uint8_t> data) noexcept;

}  // namespace spdl
