#include "media/tiff_rows.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <cstring>
#include <utility>

#include "media/still_memory.h"

namespace spdl {
namespace {

// TIFF 6.0, section 7 (BitsPerSample) and FillOrder: the high bits of a byte come first; rows begin with a byte.
void unpack(const std::uint8_t* row, std::size_t count, unsigned bits, std::uint16_t* out) noexcept {
  if (bits == 8) {
    std::copy_n(row, count, out);
    return;
  }
  if (bits == 16) {
    std::memcpy(out, row, 2 * count);
    return;
  }
  const std::uint32_t mask = (1U << bits) - 1;
  std::uint32_t held = 0;
  unsigned num_held = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; num_held < bits; num_held += 8) {
      held = held << 8 | *row++;
    }
    num_held -= bits;
    out[i] = static_cast<std::uint16_t>(held >> num_held & mask);
  }
}

// MULDIV255 of Pillow's src/libImaging/ImagingUtils.h for either depth: a * b / most to the nearest.
template <class Sample>
unsigned weighed(unsigned a, unsigned b) noexcept {
  constexpr unsigned kBits = 8 * sizeof(Sample);
  const std::uint64_t product = std::uint64_t{a} * b + (1U << (kBits - 1));
  return static_cast<unsigned>((product + (product >> kBits)) >> kBits);
}

// cmyk2rgb of Pillow's src/libImaging/Convert.c.
template <class Sample>
void remove_inks(const std::uint8_t* inks, std::uint8_t* colours, int width) noexcept {
  constexpr unsigned kMost = static_cast<Sample>(~Sample{0});
  for (int x = 0; x < width; ++x, inks += 4 * sizeof(Sample), colours += 3 * sizeof(Sample)) {
    Sample ink[4];
    Sample colour[3];
    std::memcpy(ink, inks, sizeof(ink));
    const unsigned white = kMost - ink[3];
    for (int i = 0; i < 3; ++i) {
      colour[i] = static_cast<Sample>(white - weighed<Sample>(ink[i], white));
    }
    std::memcpy(colours, colour, sizeof(colour));
  }
}

}  // namespace

TiffRows::TiffRows(AVFrame& frame, const TiffSamples& samples, std::vector<TiffComponent> components)
    : frame_(frame), samples_(samples), components_(std::move(components)) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  bool is_same = !samples.is_planar && components_.size() == samples.per_pixel && samples.bits % 8 == 0 &&
                 av_pix_fmt_count_planes(format) == 1;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    is_same = is_same && components_[i].sample == i && components_[i].levels.empty();
  }
  copied_bytes_ = is_same ? std::size_t{samples.bits / 8} * samples.per_pixel : 0;
}

void TiffRows::put(unsigned plane, int x, int y, int width, const std::uint8_t* row) {
  if (copied_bytes_ > 0) {
    std::memcpy(frame_.data[0] + std::ptrdiff_t{y} * frame_.linesize[0] + static_cast<std::size_t>(x) * copied_bytes_, row,
                static_cast<std::size_t>(width) * copied_bytes_);
    return;
  }
  const std::size_t step = samples_.is_planar ? 1 : samples_.per_pixel;
  line_.resize(static_cast<std::size_t>(width) * step);
  unpack(row, line_.size(), samples_.bits, line_.data());
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const unsigned sample = components_[i].sample;
    if (!samples_.is_planar) {
      put_component(i, x, y, width, line_.data() + sample, step);
    } else if (sample == plane) {
      put_component(i, x, y, width, line_.data(), step);
    }
  }
}

void TiffRows::put_component(std::size_t index, int x, int y, int width, const std::uint16_t* values, std::size_t step) {
  const AVComponentDescriptor& component = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame_.format))->comp[index];
  std::uint8_t* out = frame_.data[component.plane] + std::ptrdiff_t{y} * frame_.linesize[component.plane] +
                      component.offset + std::ptrdiff_t{x} * component.step;
  const std::uint16_t* levels = components_[index].levels.empty() ? nullptr : components_[index].levels.data();
  for (int i = 0; i < width; ++i, out += component.step, values += step) {
    const std::uint16_t level = levels != nullptr ? levels[*values] : *values;
    if (component.depth <= 8) {
      *out = static_cast<std::uint8_t>(level);
    } else {
      std::memcpy(out, &level, sizeof(level));
    }
  }
}

std::size_t block_bytes(int width, int rows, int across, int down) noexcept {
  const auto num_blocks = static_cast<std::size_t>((width + across - 1) / across) *
                          static_cast<std::size_t>((rows + down - 1) / down);
  return num_blocks * static_cast<std::size_t>(across * down + 2);
}

void put_blocks(AVFrame& frame, int left, int top, int width, int rows, int across, int down, const std::uint8_t* blocks) {
  const int bottom = std::min(top + rows, frame.height);
  for (int y = top; y < top + rows; y += down) {
    for (int x = left; x < left + width; x += across) {
      for (int row = y; row < y + down; ++row, blocks += across) {
        if (row < bottom && x < frame.width) {
          std::copy_n(blocks, std::min(across, frame.width - x), frame.data[0] + std::ptrdiff_t{row} * frame.linesize[0] + x);
        }
      }
      if (y < bottom && x < frame.width) {
        frame.data[1][std::ptrdiff_t{y / down} * frame.linesize[1] + x / across] = blocks[0];
        frame.data[2][std::ptrdiff_t{y / down} * frame.linesize[2] + x / across] = blocks[1];
      }
      blocks += 2;
    }
  }
}

av::FramePtr without_inks(const AVFrame& inks) {
  const bool is_deep = inks.format == AV_PIX_FMT_RGBA64;
  av::FramePtr frame = av::new_frame();
  frame->format = is_deep ? AV_PIX_FMT_RGB48 : AV_PIX_FMT_RGB24;
  frame->width = inks.width;
  frame->height = inks.height;
  allocate_pixels(*frame);
  for (int y = 0; y < inks.height; ++y) {
    const std::uint8_t* from = inks.data[0] + std::ptrdiff_t{y} * inks.linesize[0];
    std::uint8_t* to = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    (is_deep ? remove_inks<std::uint16_t> : remove_inks<std::uint8_t>)(from, to, inks.width);
  }
  return frame;
}

}  // namespace spdl
