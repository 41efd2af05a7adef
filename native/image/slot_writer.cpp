#include "image/slot_writer.h"

#include <algorithm>
#include <cstring>

#include "image/picture.h"

namespace spdl {

SlotWriter::SlotWriter(const Transform& transform, const Kernels& kernels, Buffer& line, std::uint8_t* slot,
                       std::size_t plane_stride)
    : transform_(transform),
      kernels_(kernels),
      line_(line),
      slot_(slot),
      plane_(plane_stride != 0 ? plane_stride
                               : static_cast<std::size_t>(transform.width) * static_cast<std::size_t>(transform.height)) {
  if (transform.element == kUint8) {
    return;
  }
  const auto channels = static_cast<std::size_t>(num_channels(transform.color));
  for (std::size_t i = 0; i < kPeriod; ++i) {
    for (std::size_t channel = 0; channel < 4; ++channel) {
      factors_[channel][i] = transform.factor[channel];
      summands_[channel][i] = transform.summand[channel];
    }
    factors_[kAllInTurn][i] = transform.factor[i % channels];
    summands_[kAllInTurn][i] = transform.summand[i % channels];
  }
}

std::uint8_t* SlotWriter::reserve_line() { return line_.reserve(8 * padded(transform_.width)); }

void SlotWriter::put(const std::uint8_t* levels, std::size_t count, int channel, std::size_t at) {
  const auto size = static_cast<std::size_t>(transform_.element.size);
  std::uint8_t* out = slot_ + at * size;
  if (transform_.element == kUint8) {
    std::memcpy(out, levels, count);
    return;
  }
  const float* factors = factors_[static_cast<std::size_t>(channel)].data();
  const float* summands = summands_[static_cast<std::size_t>(channel)].data();
  if (transform_.element == kFloat32) {
    kernels_.to_float32(levels, factors, summands, count, reinterpret_cast<float*>(out));
  } else if (transform_.element == kFloat16) {
    kernels_.to_float16(levels, factors, summands, count, reinterpret_cast<std::uint16_t*>(out));
  } else {
    kernels_.to_bfloat16(levels, factors, summands, count, reinterpret_cast<std::uint16_t*>(out));
  }
}

void SlotWriter::write(int y, int x, int count, const ChannelRows& rows) {
  const auto channels = static_cast<std::size_t>(num_channels(transform_.color));
  const auto width = static_cast<std::size_t>(transform_.width);
  const auto pixels = static_cast<std::size_t>(count);
  const std::size_t first = static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x);
  if (transform_.layout == Layout::kNchw || channels == 1) {
    for (std::size_t i = 0; i < channels; ++i) {
      put(rows[i], pixels, static_cast<int>(i), i * plane_ + first);
    }
    return;
  }
  std::uint8_t* packed = reserve_line() + 4 * padded(transform_.width);
  if (channels == 3) {
    kernels_.interleave(rows[0], rows[1], rows[2], packed, count);
  } else {
    kernels_.interleave4(rows[0], rows[1], rows[2], rows[3], packed, count);
  }
  put(packed, pixels * channels, kAllInTurn, first * channels);
}

void SlotWriter::fill_around(const Rect& rect) {
  if (rect.height == transform_.height && rect.width == transform_.width) {
    return;
  }
  const std::size_t room = padded(transform_.width);
  std::uint8_t* levels = reserve_line();
  ChannelRows rows{};
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint8_t* row = levels + i * room;
    std::fill_n(row, room, transform_.fill[i]);
    rows[i] = row;
  }
  for (int y = 0; y < transform_.height; ++y) {
    if (y < rect.top || y >= rect.bottom()) {
      write(y, 0, transform_.width, rows);
    } else {
      write(y, 0, rect.left, rows);
      write(y, rect.right(), transform_.width - rect.right(), rows);
    }
  }
}

}  // namespace spdl
