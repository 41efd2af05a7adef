#include "media/display_order.h"

#include <algorithm>

#include "av/check.h"

namespace spdl {
namespace {

bool counts_pictures(AVCodecID id) noexcept { return id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_HEVC; }

bool marks_type_b(AVCodecID id) noexcept {
  switch (id) {
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VC1:
    case AV_CODEC_ID_WMV3:
      return true;
    default:
      return false;
  }
}

// How many pictures may be decoded before another one and displayed after it: one; or 16 (ITU-T H.264, A.3.1; H.265,
// A.4.2), each of which may be two packets, one for each field.
constexpr std::size_t kMostAheadOfB = 1;
constexpr std::size_t kMostAheadByCounts = 32;

}  // namespace

bool DisplayOrder::is_known(AVCodecID id) noexcept {
  if (!counts_pictures(id) && !marks_type_b(id)) {
    return false;
  }
  return av::ParserPtr(av_parser_init(id)) != nullptr;
}

DisplayOrder::DisplayOrder(const AVCodecParameters& parameters)
    : context_(av::own<av::CodecContextPtr>(avcodec_alloc_context3(nullptr))),
      parser_(av::own<av::ParserPtr>(av_parser_init(parameters.codec_id))),
      has_counts_(counts_pictures(parameters.codec_id)) {
  av::check(avcodec_parameters_to_context(context_.get(), &parameters), ErrorKind::kDemux, "read the headers of pictures");
  parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
}

DisplayOrder::Place DisplayOrder::place_of(const AVPacket& packet, std::size_t number) {
  std::uint8_t* data = nullptr;
  int size = 0;
  // What it cannot read leaves the values of the picture before.
  av_parser_parse2(parser_.get(), context_.get(), &data, &size, packet.data, packet.size, packet.pts, packet.dts,
                   packet.pos);
  if (!has_counts_) {
    const bool is_b = parser_->pict_type == AV_PICTURE_TYPE_B || parser_->pict_type == AV_PICTURE_TYPE_BI;
    // Between the picture decoded ahead, which has the greatest count, and the one before that.
    return {0, is_b ? greatest_ - 1 : greatest_ += 2, number};
  }
  const std::int64_t count = parser_->output_picture_number;
  // Within a sequence, key frames are displayed after all that was decoded ahead before them.
  if ((packet.flags & AV_PKT_FLAG_KEY) != 0 && count <= greatest_) {
    ++sequence_;
    greatest_ = count;
  }
  greatest_ = std::max(greatest_, count);
  return {sequence_, count, number};
}

void DisplayOrder::push(const AVPacket& packet) {
  const std::size_t number = num_pushed_++;
  waiting_.insert(place_of(packet, number));
}

std::optional<std::size_t> DisplayOrder::pop() {
  const std::size_t most = has_counts_ ? kMostAheadByCounts : kMostAheadOfB;
  if (waiting_.empty()) {
    return std::nullopt;
  }
  // All of a sequence is displayed before the next one.
  const bool is_ready = is_finished_ || waiting_.size() > most || waiting_.begin()->sequence < sequence_;
  if (!is_ready) {
    return std::nullopt;
  }
  return waiting_.extract(waiting_.begin()).value().number;
}

}  // namespace spdl
