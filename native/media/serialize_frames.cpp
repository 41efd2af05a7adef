#include "media/serialize_frames.h"

extern "C" {
#include <libavutil/dict.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "av/check.h"
#include "av/colours.h"
#include "av/compat.h"
#include "av/names.h"
#include "base/error.h"
#include "media/overread.h"
#include "media/plane_map.h"
#include "media/serialize_fields.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr const char* kAction = "make frames of what another process sent";
constexpr std::array<std::uint8_t, 8> kMagic = {'S', 'P', 'D', 'L', 'F', 'R', 'M', 1};
constexpr std::size_t kHeaderBytes = kMagic.size() + 2 * sizeof(std::uint64_t);
// ----------------------------------------------------------------------------------------------------- descriptions

// Plain numbers that filters, encoders and users may ask for.
template <class Frame, class Visit>
void visit_numbers(Frame& frame, Visit&& visit) {
  visit(frame.format);
  visit(frame.width);
  visit(frame.height);
  visit(frame.nb_samples);
  visit(frame.sample_rate);
  visit(frame.pict_type);
  visit(frame.sample_aspect_ratio.num);
  visit(frame.sample_aspect_ratio.den);
  visit(frame.pts);
  visit(frame.pkt_dts);
  visit(frame.best_effort_timestamp);
  visit(frame.time_base.num);
  visit(frame.time_base.den);
  visit(frame.quality);
  visit(frame.repeat_pict);
  visit(frame.color_range);
  visit(frame.color_primaries);
  visit(frame.color_trc);
  visit(frame.colorspace);
  visit(frame.chroma_location);
  visit(frame.decode_error_flags);
  visit(frame.crop_top);
  visit(frame.crop_bottom);
  visit(frame.crop_left);
  visit(frame.crop_right);
}

void write_dictionary(ByteWriter& out, const AVDictionary* dictionary) {
  out.number(static_cast<std::uint64_t>(av_dict_count(dictionary)));
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(dictionary, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    out.text(entry->key);
    out.text(entry->value);
  }
}

void read_dictionary(ByteReader& in, AVDictionary** dictionary) {
  for (std::size_t left = in.size(); left > 0; --left) {
    const std::string key = in.text();
    const std::string value = in.text();
    av::check(av_dict_set(dictionary, key.c_str(), value.c_str(), AV_DICT_MULTIKEY), ErrorKind::kMedia, kAction);
  }
}

void write_frame(ByteWriter& out, const AVFrame& frame, std::size_t num_planes) {
  visit_numbers(frame, [&](const auto& value) { out.number(value); });
  out.number(av::frame_flags(frame));
  out.number(av::frame_duration(frame));
  write_layout(out, frame.ch_layout);
  write_dictionary(out, frame.metadata);
  out.number(static_cast<std::uint64_t>(frame.nb_side_data));
  for (int i = 0; i < frame.nb_side_data; ++i) {
    const AVFrameSideData& side_data = *frame.side_data[i];
    out.number(static_cast<std::int32_t>(side_data.type));
    out.block({side_data.data, side_data.size});
    write_dictionary(out, side_data.metadata);
  }
  out.number(static_cast<std::uint64_t>(num_planes));
  for (const int linesize : frame.linesize) {
    out.number(linesize);
  }
}

// Without its planes; their number is given back.
std::size_t read_frame(ByteReader& in, AVFrame& frame) {
  visit_numbers(frame, [&](auto& value) {
    using Number = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_enum_v<Number>) {
      av::set_if_known(value, in.number<int>());
    } else {
      value = in.number<Number>();
    }
  });
  av::set_frame_flags(frame, in.number<int>());
  av::set_frame_duration(frame, in.number<std::int64_t>());
  read_layout(in, frame.ch_layout);
  read_dictionary(in, &frame.metadata);
  for (std::size_t left = in.size(); left > 0; --left) {
    const auto number = in.number<std::int32_t>();
    // The last kind of FFmpeg 5.1; those up to FFmpeg 8 need no more bits.
    if (!av::can_hold<AV_FRAME_DATA_DYNAMIC_HDR_VIVID>(number)) {
      in.refuse("side data has an unknown type");
    }
    const auto type = static_cast<AVFrameSideDataType>(number);
    const Bytes data = in.block();
    AVFrameSideData* copy = av_frame_new_side_data(&frame, type, data.size());
    if (copy == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(data.begin(), data.end(), copy->data);
    read_dictionary(in, &copy->metadata);
  }
  const std::size_t num_planes = in.size();
  for (int& linesize : frame.linesize) {
    linesize = in.number<int>();
  }
  return num_planes;
}

// The largest power of two up to a cache line that divides an address.
std::uint8_t alignment_of(std::uintptr_t address) noexcept {
  return static_cast<std::uint8_t>(std::min<std::uintptr_t>(address & (~address + 1), kAlignment));
}

void write_description(ByteWriter& out, const Frames& frames, const PlaneMap& map) {
  out.number(static_cast<std::uint8_t>(frames.type));
  out.text(frames.source);
  write_rational(out, frames.time_base);
  out.number(static_cast<std::int32_t>(frames.num_errors));
  out.number(static_cast<std::uint64_t>(map.in_band_size));
  const auto is_out_of_band = [](const MemoryRange& range) { return !range.is_in_band; };
  out.number(static_cast<std::uint64_t>(std::count_if(map.ranges.begin(), map.ranges.end(), is_out_of_band)));
  for (const MemoryRange& range : map.ranges) {
    if (is_out_of_band(range)) {
      out.number(static_cast<std::uint64_t>(range.end - range.begin));
      out.number(static_cast<std::uint64_t>(range.planes_end - range.begin));
      out.number(alignment_of(range.begin));
    }
  }
  out.number(static_cast<std::uint64_t>(frames.frames.size()));
  std::size_t plane = 0;
  for (std::size_t i = 0; i < frames.frames.size(); ++i) {
    write_frame(out, *frames.frames[i], map.num_planes[i]);
    for (const std::size_t end = plane + map.num_planes[i]; plane < end; ++plane) {
      const MemoryRange& range = map.ranges[map.of_plane[plane]];
      out.number(static_cast<std::uint64_t>(range.buffer));
      out.number(static_cast<std::uint64_t>(range.offset + (map.begins[plane] - range.begin)));
    }
  }
}

// ------------------------------------------------------------------------------------------------- deserialization

// The same bytes where libav may read beyond the planes' end, at an address that is a multiple of `alignment`.
SharedBytes with_room(const SharedBytes& sent, std::size_t planes_end, std::size_t alignment) {
  const Bytes bytes = sent.bytes;
  const bool has_room = bytes.size() >= planes_end + kOverread || !may_be_followed_by_nothing(bytes.data() + bytes.size());
  if (has_room && reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) {
    return sent;
  }
  Buffer memory(bytes.size() + kOverread);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  std::memset(memory.data() + bytes.size(), 0, kOverread);
  return share(std::move(memory), bytes.size() + kOverread);
}

// The buffers that the description refers to. `in_band` is what follows the description.
std::vector<SharedBytes> read_buffers(ByteReader& in, const SharedBytes& in_band, std::span<const SharedBytes> out_of_band) {
  std::vector<SharedBytes> buffers;
  if (in.number<std::uint64_t>() != in_band.bytes.size()) {
    in.refuse("the data ends early");
  }
  // In buffer 0, each plane is followed by room.
  buffers.push_back(in_band.bytes.empty() ? SharedBytes() : with_room(in_band, 0, kAlignment));
  if (in.size() != out_of_band.size()) {
    in.refuse("the number of buffers is wrong");
  }
  for (const SharedBytes& sent : out_of_band) {
    const auto size = in.number<std::uint64_t>();
    const auto planes_end = in.number<std::uint64_t>();
    const auto alignment = in.number<std::uint8_t>();
    if (size != sent.bytes.size() || planes_end > size || alignment == 0) {
      in.refuse("a buffer belongs to other frames");
    }
    buffers.push_back(with_room(sent, static_cast<std::size_t>(planes_end), alignment));
  }
  return buffers;
}

void place_planes(ByteReader& in, AVFrame& frame, MediaType type, std::size_t num_planes, std::span<const SharedBytes> buffers) {
  const std::vector<Extent> extents = extents_of(frame, type);
  if (extents.empty() || extents.size() != num_planes) {
    in.refuse("a frame's format, size and planes do not match");
  }
  if (num_planes > AV_NUM_DATA_POINTERS) {
    frame.extended_data = static_cast<std::uint8_t**>(av_calloc(num_planes, sizeof(std::uint8_t*)));
    if (frame.extended_data == nullptr) {
      frame.extended_data = frame.data;
      throw std::bad_alloc();
    }
  }
  std::vector<std::size_t> used;
  for (std::size_t plane = 0; plane < num_planes; ++plane) {
    const auto index = in.number<std::uint64_t>();
    const auto offset = in.number<std::uint64_t>();
    if (index >= buffers.size() || offset > buffers[index].bytes.size() ||
        extents[plane].size > buffers[index].bytes.size() - offset) {
      in.refuse("a plane lies outside of the data");
    }
    const SharedBytes& buffer = buffers[index];
    auto* data = const_cast<std::uint8_t*>(buffer.bytes.data()) + offset + extents[plane].before;
    frame.extended_data[plane] = data;
    if (plane < AV_NUM_DATA_POINTERS) {
      frame.data[plane] = data;
    }
    if (std::find(used.begin(), used.end(), index) == used.end()) {
      if (used.size() == AV_NUM_DATA_POINTERS) {
        in.refuse("a frame has too many buffers");
      }
      frame.buf[used.size()] = reference_to(buffer, buffer.bytes).release();
      used.push_back(static_cast<std::size_t>(index));
    }
  }
}

Frames read_description(Bytes description, const SharedBytes& in_band, std::span<const SharedBytes> out_of_band) {
  ByteReader in(description, kAction);
  Frames frames;
  const auto type = in.number<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(MediaType::kImage)) {
    in.refuse("their media type is unknown");
  }
  frames.type = static_cast<MediaType>(type);
  frames.source = in.text();
  frames.time_base = read_rational(in);
  frames.num_errors = in.number<std::int32_t>();
  const std::vector<SharedBytes> buffers = read_buffers(in, in_band, out_of_band);
  const std::size_t count = in.size();
  frames.frames.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    av::FramePtr frame = av::new_frame();
    const std::size_t num_planes = read_frame(in, *frame);
    place_planes(in, *frame, frames.type, num_planes, buffers);
    frames.frames.push_back(std::move(frame));
  }
  if (in.num_left() != 0) {
    in.refuse("there is trailing data");
  }
  return frames;
}

}  // namespace

Serialized serialize(const Frames& frames) {
  const PlaneMap map = map_planes(frames);
  ByteWriter counter(nullptr);
  write_description(counter, frames, map);
  const std::size_t planes_offset = round_up(kHeaderBytes + counter.size(), kAlignment);
  Buffer memory(planes_offset + map.in_band_size);
  std::memset(memory.data(), 0, planes_offset + map.in_band_size);
  ByteWriter description(memory.data() + kHeaderBytes);
  write_description(description, frames, map);
  ByteWriter header(memory.data());
  header.bytes(kMagic);
  header.number(static_cast<std::uint64_t>(description.size()));
  header.number(hash_of({memory.data() + kHeaderBytes, description.size()}));
  Serialized serialized;
  for (const MemoryRange& range : map.ranges) {
    const Bytes bytes(reinterpret_cast<const std::uint8_t*>(range.begin), range.end - range.begin);
    if (range.is_in_band) {
      std::copy(bytes.begin(), bytes.end(), memory.data() + planes_offset + range.offset);
    } else {
      serialized.out_of_band.push_back(share(*range.reference, bytes));
    }
  }
  serialized.in_band = share(std::move(memory), planes_offset + map.in_band_size);
  return serialized;
}

Frames deserialize_frames(const SharedBytes& in_band, std::span<const SharedBytes> out_of_band) {
  ByteReader in(in_band.bytes, kAction);
  const Bytes magic = in_band.bytes.first(std::min(in_band.bytes.size(), kMagic.size()));
  if (!std::equal(magic.begin(), magic.end(), kMagic.begin(), kMagic.end())) {
    in.refuse("the data does not begin with the signature of frames");
  }
  in.bytes(kMagic.size());
  const auto description_size = in.number<std::uint64_t>();
  const auto expected = in.number<std::uint64_t>();
  if (description_size > in.num_left()) {
    in.refuse("the data ends early");
  }
  const Bytes description = in.bytes(static_cast<std::size_t>(description_size));
  if (hash_of(description) != expected) {
    in.refuse("the data is damaged");
  }
  const std::size_t planes_offset = std::min(round_up(kHeaderBytes + description.size(), kAlignment), in_band.bytes.size());
  return read_description(description, {in_band.bytes.subspan(planes_offset), in_band.owner}, out_of_band);
}

}  // namespace spdl
