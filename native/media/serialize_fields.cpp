#include "media/serialize_fields.h"

extern "C" {
#include <libavutil/mem.h>
}

#include <algorithm>
#include <new>

namespace spdl {

void write_rational(ByteWriter& out, AVRational value) noexcept {
  out.number(value.num);
  out.number(value.den);
}

AVRational read_rational(ByteReader& in) {
  const int num = in.number<int>();
  return {num, in.number<int>()};
}

void write_layout(ByteWriter& out, const AVChannelLayout& layout) noexcept {
  const bool is_custom = layout.order == AV_CHANNEL_ORDER_CUSTOM;
  out.number(static_cast<std::int32_t>(layout.order));
  out.number(layout.nb_channels);
  out.number(is_custom ? std::uint64_t{0} : layout.u.mask);
  for (int i = 0; is_custom && i < layout.nb_channels; ++i) {
    out.number(static_cast<std::int32_t>(layout.u.map[i].id));
  }
}

void read_layout(ByteReader& in, AVChannelLayout& layout) {
  const auto order = in.number<std::int32_t>();
  const auto num_channels = in.number<std::int32_t>();
  const auto mask = in.number<std::uint64_t>();
  if (num_channels < 0 || num_channels > 1024 || order < AV_CHANNEL_ORDER_UNSPEC || order > AV_CHANNEL_ORDER_AMBISONIC) {
    in.refuse("a channel layout is not valid");
  }
  layout.order = static_cast<AVChannelOrder>(order);
  layout.nb_channels = num_channels;
  if (order == AV_CHANNEL_ORDER_CUSTOM) {
    layout.u.map = static_cast<AVChannelCustom*>(
        av_calloc(static_cast<std::size_t>(std::max(num_channels, 1)), sizeof(AVChannelCustom)));
    if (layout.u.map == nullptr) {
      throw std::bad_alloc();
    }
    for (int i = 0; i < num_channels; ++i) {
      const auto id = in.number<std::int32_t>();
      if (id < 0 || id > AV_CHAN_AMBISONIC_END) {
        in.refuse("a channel layout is not valid");
      }
      layout.u.map[i].id = static_cast<AVChannel>(id);
    }
  } else {
    layout.u.mask = mask;
  }
  if (num_channels > 0 && av_channel_layout_check(&layout) == 0) {
    in.refuse("a channel layout is not valid");
  }
}

}  // namespace spdl
