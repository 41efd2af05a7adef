#include "media/picture.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sniff.h"
#include "image/exif.h"
#include "image/heif.h"
#include "image/orientation.h"
#include "media/decode.h"
#include "media/deep_levels.h"
#include "media/demuxer.h"
#include "media/frame_filter.h"
#include "media/still.h"
#include "media/still_decoder.h"
#include "media/stored_samples.h"

namespace spdl {
namespace {

// Encoded data of a source that is a picture; none for data that is better read incrementally, such as a movie.
std::optional<Bytes> read_still(const ImageSource& source, Buffer& into, std::optional<double> timeout) {
  const auto* path = std::get_if<std::string>(&source);
  if (path == nullptr) {
    return std::get<1>(source);
  }
  std::array<std::uint8_t, 64> start{};
  const Bytes first = read_start(*path, start);
  if (!first.empty() && !is_still(sniff_format(first))) {
    return std::nullopt;
  }
  std::error_code ignored;
  if (first.empty() && looks_like_url(*path) && !std::filesystem::exists(*path, ignored)) {
    return read_url(*path, into, timeout);
  }
  return read_file(*path, into, timeout);  // also to say what is wrong with it
}

// What turns a picture upright. Turning needs components of the same resolution, so YCbCr is converted to RGB first, as
// a filter would do afterwards; without a filter, only where necessary.
std::string upright(int orientation, bool is_filtered) {
  constexpr std::array<const char*, 9> kTurns = {
      "", "", "hflip", "hflip,vflip", "vflip", "transpose=dir=cclock_flip", "transpose=dir=clock",
      "transpose=dir=clock_flip", "transpose=dir=cclock"};
  const std::string turn = kTurns[static_cast<std::size_t>(orientation)];
  constexpr const char* kFormats =
      "rgb24|rgba|rgb48le|rgb48be|rgba64le|rgba64be|gray|ya8|gray16le|gray16be|ya16le|ya16be|gbrp|gbrap";
  return is_filtered ? std::string("format=pix_fmts=") + kFormats + "," + turn : turn;
}

std::optional<std::string> describe(const PictureOptions& options, const std::optional<Bytes>& data) {
  const int orientation = options.orient && data ? stored_orientation(*data) : kUprightOrientation;
  if (orientation == kUprightOrientation) {
    return options.filter;
  }
  const std::string turn = upright(orientation, options.filter.has_value());
  return options.filter ? turn + "," + *options.filter : turn;
}

Still decode_first(const ImageSource& source, const std::optional<Bytes>& data, const PictureOptions& options) {
  return data ? decode_still(source, *data, options.max_pixels, !options.filter)
              : decode_still(std::get<std::string>(source), options.max_pixels, !options.filter);
}

// `data`: of the source, where it has been read; a pipe cannot be read again.
Frames demux_and_decode(const ImageSource& source, const std::optional<Bytes>& data, const std::string& name,
                        const PictureOptions& options, const std::optional<std::string>& filter) {
  DemuxConfig demux = options.demux.value_or(DemuxConfig{});
  if (const auto* path = std::get_if<std::string>(&source); path != nullptr && data) {
    demux.file_name = *path;
  }
  Demuxer demuxer(data ? MediaSource(*data) : source, name, std::move(demux));
  DecodeConfig decode = options.decode.value_or(DecodeConfig{});
  decode.options.insert({"max_pixels", std::to_string(options.max_pixels)});  // unless it is there
  return decode_packets(demuxer.demux(MediaType::kImage, std::nullopt, std::nullopt), filter, decode, std::nullopt);
}

// libheif has neither a demuxer nor a decoder of FFmpeg's. FFmpeg has them from version 7 on, and would leave out how the
// picture is put together and turned.
void refuse_heif(const ImageSource& source, const std::optional<Bytes>& data) {
  std::array<std::uint8_t, 4096> start{};  // the primary item is named at the front
  const auto* path = std::get_if<std::string>(&source);
  const Bytes first = data ? *data : path != nullptr ? read_start(*path, start) : std::get<1>(source);
  if (sniff_format(first) == "HEIF" && inspect_heif(first).has_primary) {
    throw Error(ErrorKind::kDecode, "decode",
                "it is HEIF, which is not decoded by FFmpeg: leave out demux_config and decode_config");
  }
}

Frames load(const ImageSource& source, const std::string& name, const PictureOptions& options) {
  const bool is_plain = !options.demux && !options.decode;
  const auto timeout = options.demux ? options.demux->timeout : std::nullopt;
  Buffer memory;
  const auto data = is_plain || options.orient ? read_still(source, memory, timeout) : std::nullopt;
  if (!is_plain) {
    refuse_heif(source, data);
  }
  const auto description = describe(options, data);
  if (!is_plain) {
    return demux_and_decode(source, data, name, options, description);
  }
  Frames result;
  result.type = MediaType::kImage;
  result.source = name;
  Still still = decode_first(source, data, options);
  av::FramePtr frame = std::move(still.frame);
  if (stored_samples(*frame)) {
    result.frames.push_back(options.orient && data ? turn_samples(*frame, stored_orientation(*data)) : std::move(frame));
    return result;
  }
  if (wants_8_bits(options.filter)) {
    frame = with_8_bits(std::move(frame));
  }
  frame->pts = 0;
  FrameFilter filter(ChainInput{MediaType::kImage, {1, 25}, {25, 1}}, description, name);
  filter.filter(std::move(frame), result.frames);
  if (result.frames.empty()) {
    filter.filter(nullptr, result.frames);
  }
  if (result.frames.empty()) {
    throw Error(ErrorKind::kFilter, "filter", "the filter returned no picture: '" + description.value_or("") + "'");
  }
  result.frames.resize(1);
  result.time_base = filter.time_base();
  return result;
}

}  // namespace

Frames load_picture(const ImageSource& source, const std::string& name, const PictureOptions& options) {
  try {
    return load(source, name, options);
  } catch (Error& error) {
    if (error.source.empty()) {
      error.source = name;
    }
    throw;
  }
}

}  // namespace spdl
