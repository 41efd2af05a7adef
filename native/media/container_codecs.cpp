#include "media/container_codecs.h"

extern "C" {
#include <libavcodec/codec_desc.h>
}

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace spdl {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_one_of(AVCodecID codec, std::initializer_list<AVCodecID> codecs) noexcept {
  return std::find(codecs.begin(), codecs.end(), codec) != codecs.end();
}

// What has a stream type or a descriptor of its own (libavformat/mpegtsenc.c, get_dvb_stream_type); anything else is written
// as private data, which no demuxer takes for audio or video.
bool mpegts_holds(AVCodecID codec) noexcept {
  const std::string_view name = avcodec_get_name(codec);
  return is_one_of(codec, {AV_CODEC_ID_MPEG1VIDEO,   AV_CODEC_ID_MPEG2VIDEO,  AV_CODEC_ID_MPEG4,
                           AV_CODEC_ID_H264,         AV_CODEC_ID_HEVC,        AV_CODEC_ID_VVC,
                           AV_CODEC_ID_CAVS,         AV_CODEC_ID_AVS2,        AV_CODEC_ID_AVS3,
                           AV_CODEC_ID_DIRAC,        AV_CODEC_ID_VC1,         AV_CODEC_ID_MP2,
                           AV_CODEC_ID_MP3,          AV_CODEC_ID_AAC,         AV_CODEC_ID_AAC_LATM,
                           AV_CODEC_ID_AC3,          AV_CODEC_ID_EAC3,        AV_CODEC_ID_DTS,
                           AV_CODEC_ID_TRUEHD,       AV_CODEC_ID_OPUS,        AV_CODEC_ID_S302M,
                           AV_CODEC_ID_PCM_BLURAY,   AV_CODEC_ID_DVB_SUBTITLE, AV_CODEC_ID_DVB_TELETEXT,
                           AV_CODEC_ID_HDMV_PGS_SUBTITLE, AV_CODEC_ID_HDMV_TEXT_SUBTITLE, AV_CODEC_ID_ARIB_CAPTION,
                           AV_CODEC_ID_SMPTE_KLV,    AV_CODEC_ID_TIMED_ID3}) ||
         name == "lcevc" || name == "smpte_2038";
}

// libavformat/mpegenc.c, which refuses other audio itself, and mpeg.c, which has to find out what it was.
bool mpegps_holds(AVCodecID codec) noexcept {
  return is_one_of(codec, {AV_CODEC_ID_MPEG1VIDEO, AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4, AV_CODEC_ID_H264,
                           AV_CODEC_ID_HEVC, AV_CODEC_ID_CAVS, AV_CODEC_ID_MP1, AV_CODEC_ID_MP2, AV_CODEC_ID_MP3,
                           AV_CODEC_ID_AC3, AV_CODEC_ID_DTS, AV_CODEC_ID_PCM_S16BE, AV_CODEC_ID_PCM_DVD,
                           AV_CODEC_ID_DVD_SUBTITLE});
}

// Formats that are the bare stream of one codec (libavformat/rawenc.c, pcmenc.c), and before FFmpeg 6.1 take any other.
bool is_bare(const AVOutputFormat& format) noexcept {
  if ((format.flags & AVFMT_NOTIMESTAMPS) == 0 || format.codec_tag != nullptr) {
    return false;
  }
  const bool is_pcm = format.audio_codec != AV_CODEC_ID_NONE && format.video_codec == AV_CODEC_ID_NONE &&
                      std::string_view(avcodec_get_name(format.audio_codec)).starts_with("pcm_");
  return is_pcm || is_one_of(format.name, {"ac3",  "adx",   "aptx", "aptx_hd", "avs2", "avs3",       "cavsvideo",  "dfpwm",
                                           "dirac", "dnxhd", "dts", "eac3",  "evc",  "g722", "g723_1",     "gsm",
                                           "h261", "h263",  "h264", "hevc",   "m4v",  "mjpeg",      "mlp",        "mpeg1video",
                                           "mpeg2video", "obu", "rawvideo", "sbc", "singlejpeg", "truehd", "vc1", "vvc"});
}

// Nothing where the format does not say.
std::optional<bool> says(const AVOutputFormat& format, AVCodecID codec) {
  if (is_one_of(format.name, {"mpegts", "rtp_mpegts"})) {
    return mpegts_holds(codec);
  }
  if (is_one_of(format.name, {"mpeg", "vob", "dvd", "svcd", "vcd"})) {
    return mpegps_holds(codec);
  }
  if (is_bare(format)) {
    return codec == format.video_codec || codec == format.audio_codec;
  }
  const int answer = avformat_query_codec(&format, codec, FF_COMPLIANCE_EXPERIMENTAL);
  return answer < 0 ? std::nullopt : std::optional(answer > 0);
}

}  // namespace

bool can_hold(const AVOutputFormat& format, AVCodecID codec) { return says(format, codec).value_or(true); }

std::vector<std::string> codecs_held(const AVOutputFormat& format, AVMediaType type) {
  std::vector<std::string> names;
  const AVCodecDescriptor* descriptor = nullptr;
  while ((descriptor = avcodec_descriptor_next(descriptor)) != nullptr) {
    // Of formats that hold many, only those that can be made here.
    const bool is_told = is_bare(format) || avcodec_find_encoder(descriptor->id) != nullptr;
    if (descriptor->type == type && is_told && says(format, descriptor->id).value_or(false)) {
      names.emplace_back(descriptor->name);
    }
  }
  return names;
}

}  // namespace spdl
