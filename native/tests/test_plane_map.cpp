#include "media/plane_map.h"

#include <doctest/doctest.h>

extern "C" {
#include <libavutil/frame.h>
}

#include <memory>

namespace spdl {
namespace {

struct FreeFrame {
  void operator()(AVFrame* frame) const noexcept { av_frame_free(&frame); }
};
using Owned = std::unique_ptr<AVFrame, FreeFrame>;

Owned picture(AVPixelFormat format, int width, int height) {
  Owned frame(av_frame_alloc());
  REQUIRE(frame != nullptr);
  frame->format = format;
  frame->width = width;
  frame->height = height;
  REQUIRE(av_frame_get_buffer(frame.get(), 64) == 0);
  return frame;
}

}  // namespace

TEST_CASE("a plane ends with the last pixel of its last row") {
  const Owned frame = picture(AV_PIX_FMT_YUV420P, 33, 11);
  const auto extents = extents_of(*frame, MediaType::kVideo);
  REQUIRE(extents.size() == 3);
  CHECK(extents[0].before == 0);
  CHECK(extents[0].size == static_cast<std::size_t>(frame->linesize[0]) * 10 + 33);
  // Chroma of odd sizes is rounded up.
  CHECK(extents[1].size == static_cast<std::size_t>(frame->linesize[1]) * 5 + 17);
  CHECK(extents[2].with_padding >= extents[2].size);
}

TEST_CASE("rows that go upwards lie before the first") {
  const Owned frame = picture(AV_PIX_FMT_GRAY8, 16, 8);
  const int stride = frame->linesize[0];
  frame->data[0] += 7 * stride;
  frame->linesize[0] = -stride;
  const auto extents = extents_of(*frame, MediaType::kVideo);
  REQUIRE(extents.size() == 1);
  CHECK(extents[0].before == static_cast<std::size_t>(stride) * 7);
  CHECK(extents[0].size == static_cast<std::size_t>(stride) * 7 + 16);
}

TEST_CASE("fields that do not fit together give no extents") {
  const Owned frame = picture(AV_PIX_FMT_GRAY8, 16, 8);
  frame->linesize[0] = 4;
  CHECK(extents_of(*frame, MediaType::kVideo).empty());
  frame->linesize[0] = 64;
  frame->height = 0;
  CHECK(extents_of(*frame, MediaType::kVideo).empty());
  frame->height = 8;
  frame->format = -1;
  CHECK(extents_of(*frame, MediaType::kVideo).empty());
}

}  // namespace spdl
