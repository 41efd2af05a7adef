// Whole files, read into memory that is used again.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/buffer.h"

namespace spdl {

// Encoded pictures larger than this are refused: what is that large is not a picture, and must not be read to find out.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

// Reads the file at `path` into `into`. The result is a view of `into`, followed by at least one byte that may be read.
// Throws Error: kSourceNotFound, or kOpen for what is a folder, is empty, too large, or cannot be read.
std::span<const std::uint8_t> read_file(const std::string& path, Buffer& into);

// The first bytes of a regular file, as many as there are and fit. None for what is not one, or cannot be read.
std::span<const std::uint8_t> read_start(const std::string& path, std::span<std::uint8_t> into) noexcept;

// Whether it begins as `http://…` or `data:…` do (RFC 3986, 3.1). A file may have such a name all the same.
bool looks_like_url(const std::string& path) noexcept;

}  // namespace spdl
