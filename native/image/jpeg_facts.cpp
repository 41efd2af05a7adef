#include "image/jpeg_facts.h"

#include <algorithm>
#include <cstring>

namespace spdl {
namespace {

constexpr std::uint32_t kStartOfFrame = 0xc0;
constexpr std::uint32_t kHuffmanTables = 0xc4;
constexpr std::uint32_t kExtension = 0xc8;
constexpr std::uint32_t kArithmeticConditions = 0xcc;
constexpr std::uint32_t kEndOfImage = 0xd9;
constexpr std::uint32_t kStartOfScan = 0xda;
constexpr std::uint32_t kApp0 = 0xe0;
constexpr std::uint32_t kStartOfJpegLs = 0xf7;  // ITU-T T.87, C.1.1
constexpr std::uint32_t kApp14 = 0xee;
constexpr std::uint32_t kComment = 0xfe;

bool is_start_of_frame(std::uint32_t marker) noexcept {
  return marker == kStartOfJpegLs || (marker >= kStartOfFrame && marker <= 0xcf && marker != kHuffmanTables && marker != kExtension &&
         marker != kArithmeticConditions);
}

// Whether it stands alone, without a length: TEM, RSTn, SOI.
bool has_no_segment(std::uint32_t marker) noexcept { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

// The next marker's 0xff at or behind `at` in entropy-coded data: not of a stuffed byte, a restart marker, a fill byte. JPEG-LS
// stuffs a bit (ITU-T T.87, annex A.1), so that any byte below 0x80 may follow.
std::size_t end_of_scan(Bytes jpeg, std::size_t at, bool stuffs_bits) noexcept {
  while (at + 1 < jpeg.size()) {
    const void* found = std::memchr(jpeg.data() + at, 0xff, jpeg.size() - 1 - at);
    if (found == nullptr) {
      break;
    }
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - jpeg.data());
    const std::uint32_t next = jpeg[at + 1];
    if (next >= (stuffs_bits ? 0x80U : 1U) && next != 0xff && !(next >= 0xd0 && next <= 0xd7)) {
      return at;
    }
    at += next == 0xff ? 1 : 2;
  }
  return jpeg.size();
}

void read_frame(Bytes segment, JpegFacts& facts) noexcept {
  facts.precision = static_cast<int>(byte_at(segment, 0));
  facts.height = static_cast<int>(big_endian(segment, 1, 2));
  facts.width = static_cast<int>(big_endian(segment, 3, 2));
  facts.num_components = static_cast<int>(byte_at(segment, 5));
  for (std::size_t i = 0; i < std::min<std::size_t>(byte_at(segment, 5), facts.ids.size()); ++i) {
    facts.ids[i] = static_cast<std::uint8_t>(byte_at(segment, 6 + 3 * i));
    facts.sampling[i] = static_cast<std::uint8_t>(byte_at(segment, 7 + 3 * i));
  }
}

bool has_ids(const JpegFacts& facts, std::string_view ids) noexcept {
  return std::equal(ids.begin(), ids.end(), facts.ids.begin(),
                    [](char wanted, std::uint8_t id) { return static_cast<std::uint8_t>(wanted) == id; });
}

struct Marker {
  std::uint32_t code = 0;
  Bytes segment;  // without its length
};

// Calls `take(const Marker&) -> bool` for each marker until it returns false. Each byte is read once at most.
template <class Take>
void walk_markers(Bytes jpeg, Take take) noexcept {
  bool is_ls = false;
  for (std::size_t at = 2; at + 1 < jpeg.size();) {
    if (jpeg[at] != 0xff || jpeg[at + 1] == 0xff) {  // what decoders skip, and fill bytes
      ++at;
      continue;
    }
    Marker marker{jpeg[at + 1], {}};
    at += 2;
    if (marker.code == 0 || has_no_segment(marker.code)) {
      continue;
    }
    if (marker.code != kEndOfImage) {
      const std::size_t length = big_endian(jpeg, at, 2);
      marker.segment = part(jpeg, at + 2, length < 2 ? 0 : length - 2);
      at += std::max<std::size_t>(length, 2);
    }
    is_ls = is_ls || marker.code == kStartOfJpegLs;
    if (!take(marker)) {
      return;
    }
    if (marker.code == kStartOfScan) {
      at = end_of_scan(jpeg, at, is_ls);
    }
  }
}

}  // namespace

JpegFacts inspect_jpeg(Bytes jpeg) noexcept {
  JpegFacts facts;
  walk_markers(jpeg, [&](const Marker& marker) {
    const Bytes segment = marker.segment;
    if (is_start_of_frame(marker.code) && facts.num_components == 0) {
      facts.process = marker.code - kStartOfFrame;
      read_frame(segment, facts);
      facts.height_at = segment.size() < 6 ? 0 : static_cast<std::size_t>(segment.data() - jpeg.data()) + 1;
    } else if (marker.code == kApp0 && has_name(segment, 0, std::string_view("JFIF\0", 5))) {
      facts.has_jfif = true;
    } else if (marker.code == kApp14 && has_name(segment, 0, "Adobe") && segment.size() >= 12) {
      facts.adobe_transform = segment[11];
    } else if (marker.code == kComment && has_name(segment, 0, "Lavc")) {
      facts.is_of_ffmpeg = true;
    } else if (marker.code == kStartOfScan) {  // ITU-T T.87, C.1.1.3: the components, the bound of errors, and this
      constexpr std::uint32_t kBySample = 2;
      facts.interleaves_samples = is_jpeg_ls(facts) && byte_at(segment, 2 + 2 * byte_at(segment, 0)) == kBySample;
    }
    return marker.code != kStartOfScan && marker.code != kEndOfImage;
  });
  return facts;
}

bool has_end_marker(Bytes jpeg) noexcept {
  bool has_scan = false;
  bool has_end = false;
  walk_markers(jpeg, [&](const Marker& marker) {
    has_scan = has_scan || marker.code == kStartOfScan;
    has_end = has_scan && marker.code == kEndOfImage;
    return marker.code != kEndOfImage;
  });
  return has_end;
}

bool is_jpeg_ls(const JpegFacts& facts) noexcept { return facts.process == kStartOfJpegLs - kStartOfFrame; }

bool is_lossless(const JpegFacts& facts) noexcept { return facts.num_components > 0 && (facts.process & 3U) == 3; }

bool is_deep(const JpegFacts& facts) noexcept {
  return facts.num_components > 0 && facts.precision != 8 && !is_lossless(facts);
}

namespace {

// What FFmpeg 5.1 decodes to other levels, or not at all, as tried with files of libjpeg-turbo 3 and CharLS 2.4.
std::string_view unreadable_because(const JpegFacts& facts) noexcept {
  if (facts.precision < 8) {
    return "it is a lossless JPEG of less than 8 bits, whose levels FFmpeg's decoder changes: save it as PNG";
  }
  const bool is_known = facts.precision == 8 || (!is_jpeg_ls(facts) && (facts.precision == 16 || facts.is_of_ffmpeg));
  if (facts.num_components > 1 && !is_known) {
    return "it is a lossless JPEG in colour of a depth that FFmpeg does not decode: save it as PNG or TIFF of 16 bits";
  }
  if (facts.interleaves_samples && facts.num_components > 1) {
    return "it is a JPEG-LS whose samples are interleaved, which FFmpeg does not decode: save it with interleaved lines, "
           "or as PNG";
  }
  return {};
}

}  // namespace

// libjpeg: default_decompress_parms of jdapimin.c. FFmpeg: ff_mjpeg_decode_sof of mjpegdec.c, tried with 5.1.
std::string_view misread_because(const JpegFacts& facts) noexcept {
  if (is_deep(facts)) {
    return "its samples have more than 8 bits, which FFmpeg's decoder takes for 8";
  }
  if (is_lossless(facts)) {
    return unreadable_because(facts);
  }
  if (facts.process > 2) {
    return {};
  }
  const auto& sampling = facts.sampling;
  if (facts.num_components == 3) {
    if (facts.ids[0] == facts.ids[1] || facts.ids[1] == facts.ids[2] || facts.ids[0] == facts.ids[2]) {
      return "it is a JPEG with two components of one name, which FFmpeg's decoder mixes up";
    }
    const bool is_rgb_by_name = has_ids(facts, "RGB");
    const bool is_rgb =
        !facts.has_jfif && (facts.adobe_transform ? *facts.adobe_transform == 0 : is_rgb_by_name);
    const bool is_full = sampling[0] == sampling[1] && sampling[1] == sampling[2];
    const bool is_rgb_for_ffmpeg = is_full && (is_rgb_by_name || facts.adobe_transform == 0U);
    const bool may_be_either = !is_full && is_rgb_by_name;
    if (is_rgb != is_rgb_for_ffmpeg || may_be_either) {
      return "it is a JPEG whose markers say YCbCr and RGB at once, or RGB of several resolutions, which FFmpeg's decoder"
             " takes for other colours";
    }
  }
  if (facts.num_components == 4) {
    const bool is_named = has_ids(facts, "CMYK");
    if (is_named ? facts.adobe_transform.value_or(0) != 0 : !facts.adobe_transform.has_value()) {
      return "it is a JPEG in CMYK or YCCK without a mark that FFmpeg's decoder knows it by";
    }
  }
  return {};
}

}  // namespace spdl
