#include "media/still_frame.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <array>
#include <cstring>

#include "av/check.h"
#include "base/error.h"
#include "image/tiff.h"

namespace spdl {
namespace {

// TIFF 6.0, section 18: extra samples of the first kind are alpha that the colours were multiplied by.
bool has_multiplied_colours(Bytes tiff) noexcept {
  constexpr std::uint32_t kExtraSamples = 338;
  constexpr std::uint32_t kAssociated = 1;
  return TiffDirectory(tiff).short_field(kExtraSamples) == kAssociated;
}

// Truevision TGA 2.0, fields 3 and 5.5: a gray picture, plain or with run lengths, of two bytes a pixel. There is no gray of
// 16 bits; Pillow takes it for gray and alpha, too.
bool is_gray_with_alpha(Bytes targa) noexcept {
  const std::uint32_t type = byte_at(targa, 2);
  return (type == 3 || type == 11) && byte_at(targa, 16) == 16;
}

// Pillow's rgbA2rgba: what is all hidden or all shown stays as it is.
template <class Sample>
void divide_by_alpha(AVFrame& frame, std::size_t num_channels) noexcept {
  constexpr unsigned kLargest = static_cast<Sample>(~Sample{0});
  const std::size_t alpha_at = num_channels - 1;
  for (int y = 0; y < frame.height; ++y) {
    std::uint8_t* row = frame.data[0] + std::ptrdiff_t{y} * frame.linesize[0];
    for (int x = 0; x < frame.width; ++x, row += num_channels * sizeof(Sample)) {
      std::array<Sample, 4> pixel{};
      std::memcpy(pixel.data(), row, num_channels * sizeof(Sample));
      const unsigned alpha = pixel[alpha_at];
      if (alpha == 0 || alpha == kLargest) {
        continue;
      }
      for (std::size_t i = 0; i < alpha_at; ++i) {
        pixel[i] = static_cast<Sample>(std::min(kLargest * pixel[i] / alpha, kLargest));
      }
      std::memcpy(row, pixel.data(), num_channels * sizeof(Sample));
    }
  }
}

void divide_by_alpha(AVFrame& frame) {
  switch (frame.format) {
    case AV_PIX_FMT_RGBA:
      return divide_by_alpha<std::uint8_t>(frame, 4);
    case AV_PIX_FMT_YA8:
      return divide_by_alpha<std::uint8_t>(frame, 2);
    case AV_PIX_FMT_RGBA64:  // of this processor's byte order
      return divide_by_alpha<std::uint16_t>(frame, 4);
    case AV_PIX_FMT_YA16:
      return divide_by_alpha<std::uint16_t>(frame, 2);
    default:
      break;
  }
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  if (format != nullptr && (format->flags & AV_PIX_FMT_FLAG_ALPHA) != 0) {
    throw Error(ErrorKind::kDecode, "decode",
                std::string("its colours are multiplied by its alpha, which is not undone for ") + format->name);
  }
}

// Text of PNG is Latin-1, and libav turns it into UTF-8. In FFmpeg 7 it takes letters beyond ASCII for negative numbers, so
// that 0xfe and 0xff, which no UTF-8 has, are where 0xc2 and 0xc3 belong.
void correct_text(AVFrame& frame) {
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(frame.metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    for (char* letter = entry->value; *letter != '\0'; ++letter) {
      const auto byte = static_cast<unsigned char>(*letter);
      if (byte >= 0xfe && (static_cast<unsigned char>(letter[1]) & 0xc0) == 0x80) {
        *letter = static_cast<char>(byte - 0xfe + 0xc2);
      }
    }
  }
}

}  // namespace

// The SGI Image File Format 1.00: one dimension is one row, and the other sizes do not count. FFmpeg takes two and three.
void correct_packet(AVPacket& packet, AVCodecID codec) {
  constexpr std::size_t kMagic = 0x01da;
  const Bytes sgi(packet.data, static_cast<std::size_t>(std::max(packet.size, 0)));
  if (codec != AV_CODEC_ID_SGI || sgi.size() < 12 || big_endian(sgi, 0, 2) != kMagic || big_endian(sgi, 4, 2) != 1) {
    return;
  }
  av::check(av_packet_make_writable(&packet), ErrorKind::kDemux, "read");
  static constexpr std::array<std::uint8_t, 2> kTwo = {0, 2};
  static constexpr std::array<std::uint8_t, 2> kOne = {0, 1};
  std::copy(kTwo.begin(), kTwo.end(), packet.data + 4);
  std::copy(kOne.begin(), kOne.end(), packet.data + 8);   // rows
  std::copy(kOne.begin(), kOne.end(), packet.data + 10);  // channels
}

void correct_still(AVFrame& frame, AVCodecID codec, Bytes data) {
  switch (codec) {
    case AV_CODEC_ID_PNG:
    case AV_CODEC_ID_APNG:
      correct_text(frame);
      break;
    case AV_CODEC_ID_WEBP:
      // VP8 has no range: its bit of that name in FFmpeg says whether decoders may leave clamping out (RFC 6386, 9.2).
      frame.color_range = AVCOL_RANGE_MPEG;
      break;
    case AV_CODEC_ID_TARGA:
      if (is_gray_with_alpha(data) && (frame.format == AV_PIX_FMT_RGB555LE || frame.format == AV_PIX_FMT_GRAY16LE)) {
        frame.format = AV_PIX_FMT_YA8;
      }
      break;
    case AV_CODEC_ID_TIFF:
      if (has_multiplied_colours(data)) {
        av::check(av_frame_make_writable(&frame), ErrorKind::kDecode, "decode");
        divide_by_alpha(frame);
      }
      [[fallthrough]];
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_JPEG2000:
    case AV_CODEC_ID_JPEGXL:
      if (frame.color_range == AVCOL_RANGE_UNSPECIFIED) {
        frame.color_range = AVCOL_RANGE_JPEG;
      }
      break;
    default:
      break;
  }
}

}  // namespace spdl
