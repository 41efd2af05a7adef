#include "media/facts.h"

extern "C" {
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
}

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "av/compat.h"
#include "av/names.h"
#include "base/time_window.h"

namespace spdl {
namespace {

using Matrix = std::array<std::int32_t, 9>;

std::optional<Matrix> matrix_in(std::span<const std::uint8_t> bytes) noexcept {
  Matrix matrix{};
  if (bytes.size() < sizeof(matrix)) {
    return std::nullopt;
  }
  std::memcpy(matrix.data(), bytes.data(), sizeof(matrix));
  return matrix;
}

std::optional<Matrix> display_matrix(const AVStream& stream) {
  for (const av::SideData& side : av::side_data_of(stream)) {
    if (side.type == AV_PKT_DATA_DISPLAYMATRIX) {
      return matrix_in(side.bytes);
    }
  }
  for (const auto& [type, bytes] : av::coded_side_data(*stream.codecpar)) {
    if (type == AV_PKT_DATA_DISPLAYMATRIX) {
      return matrix_in(bytes);
    }
  }
  return std::nullopt;
}

constexpr int sign(std::int32_t number) noexcept { return number > 0 ? 1 : number < 0 ? -1 : 0; }

// The matrix takes (x, y) to (a x + c y, b x + d y) (libavutil/display.h); the numbers are those of EXIF.
Orientation orientation_of(const Matrix& matrix) noexcept {
  const int a = sign(matrix[0]), b = sign(matrix[1]), c = sign(matrix[3]), d = sign(matrix[4]);
  int number = 1;
  if (b == 0 && c == 0 && a != 0 && d != 0) {
    number = a > 0 ? (d > 0 ? 1 : 4) : (d > 0 ? 2 : 3);
  } else if (a == 0 && d == 0 && b != 0 && c != 0) {
    number = b > 0 ? (c > 0 ? 5 : 6) : (c > 0 ? 8 : 7);
  }
  return static_cast<Orientation>(number);
}

Tags tags_of(const AVDictionary* dictionary) {
  Tags tags;
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(dictionary, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    tags.emplace_back(entry->key, entry->value);
  }
  return tags;
}

std::optional<std::string> text_of(const char* name) {
  return name == nullptr ? std::nullopt : std::optional<std::string>(name);
}

std::optional<std::int64_t> positive(std::int64_t number) noexcept {
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<AVRational> positive(AVRational number) noexcept {
  return number.num > 0 && number.den > 0 ? std::optional(number) : std::nullopt;
}

std::optional<double> seconds(std::int64_t ticks, AVRational time_base) noexcept {
  return ticks == AV_NOPTS_VALUE || time_base.den == 0 ? std::nullopt
                                                       : std::optional(to_seconds(ticks, time_base.num, time_base.den));
}

std::string type_name(AVMediaType type) {
  const char* name = av_get_media_type_string(type);
  return name != nullptr ? name : "other";
}

// Unspecified values are left out.
template <class Name>
std::optional<std::string> colour(int value, int unspecified, Name name) {
  return value == unspecified ? std::nullopt : text_of(name());
}

void add_picture_facts(AVFormatContext& context, AVStream& stream, StreamFacts& facts) {
  const AVCodecParameters& parameters = *stream.codecpar;
  facts.height = parameters.height;
  facts.width = parameters.width;
  facts.frame_rate = positive(stream.avg_frame_rate);
  if (facts.is_cover || std::string_view(context.iformat->name).ends_with("_pipe")) {
    facts.frame_rate.reset();  // one picture has none, but libav makes one up
  } else if (!facts.frame_rate) {
    facts.frame_rate = positive(av_guess_frame_rate(&context, &stream, nullptr));
  }
  facts.sample_aspect_ratio = positive(av_guess_sample_aspect_ratio(&context, &stream, nullptr));
  facts.orientation = display_orientation(stream);
  if (parameters.format != AV_PIX_FMT_NONE) {
    facts.pix_fmt = av::pixel_format_name(parameters.format);
  }
  facts.color_space = colour(parameters.color_space, AVCOL_SPC_UNSPECIFIED,
                             [&] { return av_color_space_name(parameters.color_space); });
  facts.color_range = colour(parameters.color_range, AVCOL_RANGE_UNSPECIFIED,
                             [&] { return av_color_range_name(parameters.color_range); });
  facts.color_primaries = colour(parameters.color_primaries, AVCOL_PRI_UNSPECIFIED,
                                 [&] { return av_color_primaries_name(parameters.color_primaries); });
  facts.color_trc = colour(parameters.color_trc, AVCOL_TRC_UNSPECIFIED,
                           [&] { return av_color_transfer_name(parameters.color_trc); });
}

void add_sound_facts(const AVCodecParameters& parameters, StreamFacts& facts) {
  facts.sample_rate = parameters.sample_rate;
  facts.num_channels = parameters.ch_layout.nb_channels;
  if (facts.num_channels > 0) {
    // Files such as WAV state the number only; decoders then take the usual layout.
    AVChannelLayout usual{};
    av_channel_layout_default(&usual, facts.num_channels);
    facts.channel_layout =
        av::channel_layout_name(parameters.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC ? usual : parameters.ch_layout);
    av_channel_layout_uninit(&usual);
  }
  if (parameters.format != AV_SAMPLE_FMT_NONE) {
    facts.sample_fmt = av::sample_format_name(parameters.format);
  }
}

StreamFacts facts_of(AVFormatContext& context, AVStream& stream) {
  const AVCodecParameters& parameters = *stream.codecpar;
  StreamFacts facts;
  facts.index = stream.index;
  facts.type = type_name(parameters.codec_type);
  facts.codec = parameters.codec_id == AV_CODEC_ID_NONE ? "unknown" : avcodec_get_name(parameters.codec_id);
  facts.profile = text_of(avcodec_profile_name(parameters.codec_id, parameters.profile));
  facts.time_base = stream.time_base;
  facts.start = seconds(stream.start_time, stream.time_base);
  facts.duration = seconds(stream.duration, stream.time_base);
  facts.bit_rate = positive(parameters.bit_rate);
  facts.num_frames = positive(stream.nb_frames);
  facts.is_default = (stream.disposition & AV_DISPOSITION_DEFAULT) != 0;
  facts.is_cover = is_cover(stream);
  facts.tags = tags_of(stream.metadata);
  if (parameters.codec_type == AVMEDIA_TYPE_VIDEO) {
    add_picture_facts(context, stream, facts);
  } else if (parameters.codec_type == AVMEDIA_TYPE_AUDIO) {
    add_sound_facts(parameters, facts);
  }
  return facts;
}

}  // namespace

Orientation display_orientation(const AVStream& stream) {
  const auto matrix = display_matrix(stream);
  return matrix ? orientation_of(*matrix) : Orientation::kUpright;
}

ContainerFacts facts_of(AVFormatContext& context) {
  ContainerFacts facts;
  facts.format = context.iformat->name;
  facts.start = seconds(context.start_time, AV_TIME_BASE_Q);
  facts.duration = context.duration > 0 ? seconds(context.duration, AV_TIME_BASE_Q) : std::nullopt;
  facts.bit_rate = positive(context.bit_rate);
  facts.tags = tags_of(context.metadata);
  for (unsigned i = 0; i < context.nb_streams; ++i) {
    facts.streams.push_back(facts_of(context, *context.streams[i]));
  }
  return facts;
}

}  // namespace spdl
