#include "media/repr.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

#include "av/names.h"

namespace spdl {
namespace {

// The shortest text that reads back as the same number: 1, 0.5, 0.3333333333333333.
std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string milliseconds(double seconds) {
  std::array<char, 352> text{};  // of the largest double
  std::snprintf(text.data(), text.size(), "%.3f", seconds);
  return text.data();
}

const char* class_of(MediaType type) noexcept {
  switch (type) {
    case MediaType::kAudio:
      return "AudioPackets";
    case MediaType::kVideo:
      return "VideoPackets";
    case MediaType::kImage:
      break;
  }
  return "ImagePackets";
}

}  // namespace

std::string repr(const Packets& packets) {
  const bool is_image = packets.type == MediaType::kImage;
  std::string text = std::string(class_of(packets.type)) + "<src=\"" + packets.source;
  if (!is_image) {
    text.append(":").append(std::to_string(packets.stream_index));
  }
  text += '"';
  if (!is_image) {
    text += ", num_packets=" + std::to_string(num_in_window(packets));
    const std::vector<double> times = display_timestamps(packets);
    if (!times.empty()) {
      // A last packet of sound goes on after its time.
      text += ", pts=[" + milliseconds(times.front()) + ", " + milliseconds(times.back()) +
              (packets.type == MediaType::kAudio ? "~]" : "]");
    }
    if (packets.window) {
      text += ", timestamp=(" + shortest(packets.window->start) + ", " + shortest(packets.window->end) + ")";
    }
  }
  if (packets.num_errors > 0) {
    text += ", num_errors=" + std::to_string(packets.num_errors);
  }
  if (packets.codec) {
    text += ", Codec=" + repr(*packets.codec);
  }
  return text + ">";
}

std::string repr(const Codec& codec) {
  const AVCodecParameters& parameters = *codec.parameters;
  std::string text = "<bit_rate=" + std::to_string(parameters.bit_rate) +
                     ", bits_per_sample=" + std::to_string(parameters.bits_per_raw_sample) + ", codec=\"" +
                     avcodec_get_name(parameters.codec_id) + "\"";
  if (codec.type == MediaType::kAudio) {
    return text + ", sample_format=\"" + av::sample_format_name(parameters.format) +
           "\", sample_rate=" + std::to_string(parameters.sample_rate) +
           ", num_channels=" + std::to_string(parameters.ch_layout.nb_channels) + ">";
  }
  text += ", pixel_format=\"" + av::pixel_format_name(parameters.format) + "\"";
  if (codec.type == MediaType::kVideo) {
    text += ", frame_rate=" + std::to_string(codec.frame_rate.num) + "/" + std::to_string(codec.frame_rate.den);
  }
  return text + ", width=" + std::to_string(parameters.width) + ", height=" + std::to_string(parameters.height) + ">";
}

}  // namespace spdl
