#include "media/gif_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "image/lzw.h"
#include "media/still_memory.h"

namespace spdl {
namespace {

// Rows in the order in which they are stored (GIF89a, appendix E).
struct Pass {
  int top;
  int step;
};
constexpr std::array kInterlaced = {Pass{0, 8}, Pass{4, 8}, Pass{2, 4}, Pass{1, 2}};
constexpr std::array kPlain = {Pass{0, 1}};

// 0xAARRGGBB, as AV_PIX_FMT_RGB32 has it in numbers of the processor.
using Palette = std::array<std::uint32_t, 256>;

Palette palette_of(const GifFacts& facts) noexcept {
  constexpr std::uint32_t kOpaque = 0xff000000;
  Palette palette{};
  for (std::size_t i = 0; i < std::min(facts.palette.size() / 3, palette.size()); ++i) {
    palette[i] = kOpaque | big_endian(facts.palette, 3 * i, 3);
  }
  if (facts.hidden_index && facts.hidden_colour) {
    palette[*facts.hidden_index] = *facts.hidden_colour;
  }
  return palette;
}

}  // namespace

av::FramePtr decode_gif(Bytes gif, const GifFacts& facts, std::int64_t max_pixels) {
  const std::int64_t num_pixels = std::int64_t{facts.width} * facts.height;
  const std::size_t num_colours = facts.palette.size() / 3;
  if (!facts.covers_screen || facts.ends_early || facts.has_aspect || num_pixels < 1 || num_pixels > max_pixels ||
      num_colours == 0 || facts.hidden_index.value_or(0) >= num_colours) {
    return nullptr;
  }
  Buffer codes;
  const std::size_t size = join_gif_blocks(gif, facts.blocks_at, codes.reserve(gif.size()));
  Buffer memory;
  const std::span<std::uint8_t> indices(memory.reserve(static_cast<std::size_t>(num_pixels)),
                                        static_cast<std::size_t>(num_pixels));
  if (!unpack_lzw({codes.data(), size}, LzwKind::kGif, facts.bits, indices) ||
      (num_colours < 256 && *std::max_element(indices.begin(), indices.end()) >= num_colours)) {
    return nullptr;
  }
  av::FramePtr frame = av::new_frame();
  frame->format = AV_PIX_FMT_RGB32;
  frame->width = facts.width;
  frame->height = facts.height;
  allocate_pixels(*frame);
  const Palette palette = palette_of(facts);
  const std::uint8_t* from = indices.data();
  for (const auto [top, step] : facts.is_interlaced ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain)) {
    for (int y = top; y < facts.height; y += step, from += facts.width) {
      auto* const row = reinterpret_cast<std::uint32_t*>(frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0]);
      std::transform(from, from + facts.width, row, [&](std::uint8_t index) { return palette[index]; });
    }
  }
  return frame;
}

}  // namespace spdl
