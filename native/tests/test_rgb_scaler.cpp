#include "media/rgb_scaler.h"

extern "C" {
#include <libswscale/swscale.h>
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <vector>

#include "media/kept_scaler.h"

namespace spdl {
namespace {

constexpr std::ptrdiff_t kMargin = 96;  // beside each row
constexpr std::uint8_t kUntouched = 0xa5;

// Noise; every other one of zeros and 255 only.
av::FramePtr noise(std::minstd_rand& random, int width, int height) {
  av::FramePtr frame = av::new_frame();
  frame->width = width;
  frame->height = height;
  frame->format = AV_PIX_FMT_YUV420P;
  REQUIRE(av_frame_get_buffer(frame.get(), 0) >= 0);
  const bool is_extreme = random() % 2 == 0;
  for (const int plane : {0, 1, 2}) {
    const int rows = plane == 0 ? height : (height + 1) / 2;
    for (int i = 0; i < rows * frame->linesize[plane]; ++i) {
      const unsigned level = random() >> 8 & 0xff;
      frame->data[plane][i] = static_cast<std::uint8_t>(is_extreme ? (level & 1) * 255 : level);
    }
  }
  return frame;
}

// Whether RgbScaler takes pictures of that size.
// If so, its bits must be those of libswscale, and nothing beside them written.
bool has_the_bits(std::minstd_rand& random, int width, int height, AVColorRange range, AVColorSpace matrix) {
  const ScaleCase wanted{width, height, AV_PIX_FMT_YUV420P, range, matrix, width, height, AV_PIX_FMT_RGB24, ""};
  const KeptScalerPtr kept = take_scaler(wanted);
  REQUIRE(kept != nullptr);
  std::optional<RgbScaler> scaler = RgbScaler::make(
      {width, height, AV_PIX_FMT_YUV420P, width, height, "", kept->made.is_full_range, kept->made.matrix});
  if (!scaler) {
    return false;
  }
  for (int turn = 0; turn < 2; ++turn) {
    const av::FramePtr frame = noise(random, width, height);
    av::FramePtr expected = av::new_frame();
    expected->width = width;
    expected->height = height;
    expected->format = AV_PIX_FMT_RGB24;
    REQUIRE(av_frame_get_buffer(expected.get(), 0) >= 0);
    REQUIRE(sws_scale(kept->made.context.get(), frame->data, frame->linesize, 0, height, expected->data,
                      expected->linesize) >= 0);
    const std::ptrdiff_t row_bytes = std::ptrdiff_t{3} * width;
    const std::ptrdiff_t stride = row_bytes + kMargin;
    std::vector<std::uint8_t> given(static_cast<std::size_t>(stride * height), kUntouched);
    REQUIRE(scaler->scale(*frame, given.data(), stride));
    for (int y = 0; y < height; ++y) {
      const std::uint8_t* row = given.data() + y * stride;
      const std::uint8_t* its = expected->data[0] + static_cast<std::ptrdiff_t>(y) * expected->linesize[0];
      REQUIRE(std::equal(row, row + row_bytes, its));
      REQUIRE(std::all_of(row + row_bytes, row + stride, [](std::uint8_t byte) { return byte == kUntouched; }));
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a picture of an odd height becomes RGB with the bits of libswscale") {
  std::minstd_rand random(1);
  int num_taken = 0;
  for (int width = 1; width <= 67; ++width) {
    for (int height = 1; height <= 67; ++height) {
      const AVColorRange range = height % 4 == 1 ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
      const AVColorSpace matrix = width % 4 == 0 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
      num_taken += has_the_bits(random, width, height, range, matrix) ? 1 : 0;
    }
  }
  CHECK(num_taken == 26 * 26);  // even widths from 16 to 66, odd heights from 17 to 67
}

TEST_CASE("so does a larger one, of every matrix and range") {
  std::minstd_rand random(2);
  for (const AVColorSpace matrix : {AVCOL_SPC_BT709, AVCOL_SPC_SMPTE170M, AVCOL_SPC_SMPTE240M, AVCOL_SPC_FCC,
                                    AVCOL_SPC_BT2020_NCL, AVCOL_SPC_UNSPECIFIED}) {
    for (const AVColorRange range : {AVCOL_RANGE_MPEG, AVCOL_RANGE_JPEG, AVCOL_RANGE_UNSPECIFIED}) {
      const int width = static_cast<int>(8 + random() % 600) * 2;
      const int height = static_cast<int>(8 + random() % 300) * 2 + 1;
      CHECK(has_the_bits(random, width, height, range, matrix));
    }
  }
}

}  // namespace spdl
