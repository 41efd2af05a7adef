// MP3 files whose frames all have the same length, so that a place in the file tells the time.
//
// The header of the first frame says how long a frame is (ISO/IEC 11172-3, 2.4.2.3); a frame before it, which encoders put there
// for players, is called "Info" where all are alike and "Xing" where they are not.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace spdl {

// How many bytes a frame has on average: single ones have up to one less or more. `before`: what lies before the first frame;
// `frame`: that frame. None where the frames differ in length, or nothing tells.
std::optional<double> bytes_of_mp3_frame(std::span<const std::uint8_t> before, std::span<const std::uint8_t> frame) noexcept;

// How much of `before` is worth having: the longest frame there is.
inline constexpr std::size_t kLongestMp3Frame = 1441;

}  // namespace spdl
