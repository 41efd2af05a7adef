#include "media/packed_frames.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "media/packets.h"

namespace spdl {
namespace {

// vop_start_code (ISO/IEC 14496-2, 6.2.1).
constexpr std::array<std::uint8_t, 4> kPicture = {0, 0, 1, 0xb6};

// Where the second picture begins; the size if there is only one.
std::size_t second_picture(Bytes data) noexcept {
  auto first = std::search(data.begin(), data.end(), kPicture.begin(), kPicture.end());
  if (first != data.end()) {
    first = std::search(first + kPicture.size(), data.end(), kPicture.begin(), kPicture.end());
  }
  return static_cast<std::size_t>(first - data.begin());
}

// vop_coded = 0, and nothing else: the start code, at most 4 bytes for types and times, and stuffing.
bool is_empty_picture(Bytes data) noexcept {
  constexpr std::size_t kMost = 8;
  return data.size() < kMost;
}

}  // namespace

// User data such as "DivX503b1393p", where p stands for packed.
bool PackedFrames::are_in(const AVCodecParameters& parameters) noexcept {
  if (parameters.codec_id != AV_CODEC_ID_MPEG4 || parameters.extradata_size <= 0) {
    return false;
  }
  const std::string_view header(reinterpret_cast<const char*>(parameters.extradata),
                                static_cast<std::size_t>(parameters.extradata_size));
  constexpr std::string_view kEncoder = "DivX";
  const std::size_t start = header.find(kEncoder);
  if (start == std::string_view::npos) {
    return false;
  }
  const auto is_version = [](unsigned char letter) { return std::isdigit(letter) != 0 || std::isalpha(letter) != 0; };
  const std::string_view rest = header.substr(start + kEncoder.size());
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_version);
  return end != rest.begin() && *(end - 1) == 'p';
}

std::vector<av::PacketPtr> PackedFrames::split(av::PacketPtr packet) {
  std::vector<av::PacketPtr> all;
  const Bytes data = bytes_of(*packet);
  const std::size_t second = second_picture(data);
  const bool holds_two = second < data.size();
  if (waiting_ != nullptr) {
    av::PacketPtr next = std::move(waiting_);
    if (holds_two) {
      all.push_back(std::move(next));  // its empty picture is missing
    } else {
      next->pts = packet->pts;
      next->dts = packet->dts;
      next->duration = packet->duration;
      if (!is_empty_picture(data)) {
        // It waits in its turn, so that all keep their order; its time is that of a later packet.
        waiting_ = std::move(packet);
        waiting_->pts = waiting_->dts = AV_NOPTS_VALUE;
      }
      all.push_back(std::move(next));
      return all;
    }
  }
  if (holds_two) {
    waiting_ = av::clone(*packet);
    waiting_->data += second;
    waiting_->size -= static_cast<int>(second);
    waiting_->pts = waiting_->dts = AV_NOPTS_VALUE;
    waiting_->flags &= ~AV_PKT_FLAG_KEY;
    packet->size = static_cast<int>(second);
  }
  all.push_back(std::move(packet));
  return all;
}

}  // namespace spdl
