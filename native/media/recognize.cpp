#include "media/recognize.h"

extern "C" {
#include <libavutil/dict.h>
}

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/sniff.h"
#include "image/bytes.h"

namespace spdl {
namespace {

// An animation says so in a chunk before the pixels (W3C, PNG third edition, 11.3.6.1 acTL).
bool is_still_png(Bytes start) noexcept {
  std::size_t at = 8;
  while (start.size() >= at + 8 && !has_name(start, at + 4, "acTL")) {
    if (has_name(start, at + 4, "IDAT")) {
      return true;
    }
    at += std::size_t{12} + big_endian(start, at, 4);
  }
  return false;
}

// libav's name of the format, where its demuxer is beyond doubt.
const char* name_of_format(Bytes start) noexcept {
  struct Known {
    std::string_view format;
    const char* demuxer;
  };
  static constexpr std::array kKnown = {
      Known{"WAV", "wav"},  Known{"WebP", "webp_pipe"}, Known{"PNG", "png_pipe"},
      Known{"AVIF", "mov"}, Known{"HEIF", "mov"},       Known{"MP4", "mov"},
      Known{"FLAC", "flac"}, Known{"Ogg", "ogg"},       Known{"Matroska or WebM", "matroska"},
  };
  const std::string_view format = sniff_format(start);
  // FFmpeg knows its extension, but not its signature.
  if (format == "TIFF" && (has_name(start, 0, "II+") || big_endian(start, 2, 2) == 43)) {
    return "tiff_pipe";
  }
  if (format == "PNG" && !is_still_png(start)) {
    return nullptr;
  }
  const auto* found =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return known.format == format; });
  return found != kKnown.end() ? found->demuxer : nullptr;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_avif(const AVFormatContext& context) noexcept {
  const AVDictionaryEntry* brand = av_dict_get(context.metadata, "major_brand", nullptr, 0);
  return brand != nullptr && std::string_view(brand->value) == "avif";
}

// Packets come with the same times and flags whether or not libav has looked into some of them before.
bool is_plain_sound(const AVFormatContext& context) noexcept {
  const AVCodecParameters& parameters = *context.streams[0]->codecpar;
  return parameters.codec_type == AVMEDIA_TYPE_AUDIO && parameters.codec_id != AV_CODEC_ID_NONE &&
         parameters.sample_rate > 0 && parameters.ch_layout.nb_channels > 0 &&
         is_one_of(context.iformat->name, {"wav", "flac", "mp3", "ogg", "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"});
}

}  // namespace

const AVInputFormat* recognize(Bytes start) {
  const char* name = name_of_format(start);
  return name != nullptr ? av_find_input_format(name) : nullptr;
}

// What libav looks for up to FFmpeg 7.0 (libavformat/hls.c, hls_probe).
bool is_hls_playlist(Bytes start) noexcept {
  static constexpr std::array<std::string_view, 3> kTags = {"#EXT-X-STREAM-INF:", "#EXT-X-TARGETDURATION:",
                                                            "#EXT-X-MEDIA-SEQUENCE:"};
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  return text.starts_with("#EXTM3U") && std::any_of(kTags.begin(), kTags.end(), [&](std::string_view tag) {
           return text.find(tag) != std::string_view::npos;
         });
}

bool may_hide_a_codec(Bytes start) noexcept {
  // Sync words of DTS: 16 and 14 bits, both byte orders (ETSI TS 102 114, annex); of AC-3, both byte orders (ETSI TS 102
  // 366, 4.3.1), where two in a row rule out most chances.
  static constexpr std::array<std::string_view, 4> kDts = {
      std::string_view("\x7f\xfe\x80\x01", 4), std::string_view("\xfe\x7f\x01\x80", 4),
      std::string_view("\x1f\xff\xe8\x00", 4), std::string_view("\xff\x1f\x00\xe8", 4)};
  static constexpr std::array<std::string_view, 2> kAc3 = {std::string_view("\x0b\x77", 2),
                                                           std::string_view("\x77\x0b", 2)};
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  for (const auto& word : kDts) {
    if (text.find(word) != std::string_view::npos) {
      return true;
    }
  }
  for (const auto& word : kAc3) {
    const std::size_t first = text.find(word);
    if (first != std::string_view::npos && text.find(word, first + 2) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool is_whole_picture(const AVFormatContext& context) noexcept {
  // Others come as a row of pictures as well, one behind the other, and need a parser.
  return context.nb_streams == 1 && is_one_of(context.iformat->name, {"png_pipe", "webp_pipe", "bmp_pipe", "tiff_pipe"});
}

// Fields of STREAMINFO: RFC 9639, section 8.2.
void complete_flac(AVFormatContext& context) noexcept {
  constexpr int kStreamInfo = 34;
  if (context.nb_streams != 1 || std::string_view(context.iformat->name) != "flac") {
    return;
  }
  AVCodecParameters& parameters = *context.streams[0]->codecpar;
  if (parameters.extradata == nullptr || parameters.extradata_size != kStreamInfo) {
    return;
  }
  const std::uint8_t* info = parameters.extradata;
  const int num_channels = (info[12] >> 1 & 7) + 1;
  const int rate = info[10] << 12 | info[11] << 4 | info[12] >> 4;
  // More channels have layouts of their own.
  if (rate > 0 && num_channels <= 2 && parameters.ch_layout.nb_channels == 0) {
    parameters.sample_rate = rate;
    parameters.frame_size = info[2] << 8 | info[3];
    av_channel_layout_default(&parameters.ch_layout, num_channels);
  }
}

bool is_header_enough(const AVFormatContext& context) noexcept {
  return context.nb_streams == 1 && (is_whole_picture(context) || is_avif(context) || is_plain_sound(context));
}

const char* unsupported_sound(std::span<const std::uint8_t> start) noexcept {
  static constexpr std::array<std::pair<std::string_view, const char*>, 4> kNames = {{
      {"dns.", "a little-endian AU file"},
      {"MATLAB 5.0 MAT-file", "a MATLAB file"},
      {"ALawSoundFile**", "a Psion WVE file"},
      {"Extended Instrument:", "a FastTracker instrument"},
  }};
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  for (const auto& [name, what] : kNames) {
    if (text.starts_with(name)) {
      return what;
    }
  }
  // The name of the first matrix, behind its header of five numbers.
  constexpr std::size_t kNameOfMatrix = 20;
  return text.size() > kNameOfMatrix && text.substr(kNameOfMatrix).starts_with("samplerate") ? "a MATLAB file" : nullptr;
}

}  // namespace spdl
