// How far beyond the end of a plane libav may read, and whether memory is mapped there.

#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// avutil/frame.h asks for 16 bytes; AVX-512 loads 64.
inline constexpr std::size_t kPromisedOverread = 16;
inline constexpr std::size_t kOverread = 64;
// No machine has smaller pages: memory is mapped, or not, in units of this size.
inline constexpr std::size_t kSmallestPage = 4096;

// Memory that ends this close to the end of a page may have nothing mapped behind it.
inline bool may_be_followed_by_nothing(const std::uint8_t* end) noexcept {
  return reinterpret_cast<std::uintptr_t>(end - 1) % kSmallestPage + kOverread >= kSmallestPage;
}

}  // namespace spdl
