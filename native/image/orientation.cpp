#include "image/orientation.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "archive/inflate.h"
#include "base/sniff.h"
#include "image/bytes.h"
#include "image/exif.h"
#include "image/heif.h"
#include "image/tiff.h"
#include "image/webp.h"

namespace spdl {
namespace {

// ITU-T T.81, annex B: markers with lengths up to the first scan.
int of_jpeg(Bytes data) noexcept {
  constexpr std::uint32_t kApp1 = 0xe1;
  constexpr std::uint32_t kStartOfScan = 0xda;
  JpegOrientation orientation;
  std::size_t at = 2;
  while (at + 4 <= data.size() && data[at] == 0xff) {
    const std::uint32_t marker = data[at + 1];
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    const std::size_t length = big_endian(data, at + 2, 2);
    if (marker == kStartOfScan || length < 2) {
      break;
    }
    if (marker == kApp1) {
      orientation.add(part(data, at + 4, length - 2));
    }
    at += 2 + length;
  }
  return orientation.shown();
}

// What Pillow takes from text: longer text would be decompressed without need.
constexpr std::size_t kMaxText = std::size_t{1} << 20;

// Text of PNG, by its key (W3C, PNG third edition, 11.3.3): tEXt, zTXt and iTXt.
struct PngText {
  Bytes text;
  bool is_compressed = false;
};

// The contents of a chunk with text of that key.
std::optional<PngText> find_text(Bytes chunk, std::string_view type, std::string_view key) noexcept {
  if (!has_name(chunk, 0, key) || chunk.size() <= key.size() || chunk[key.size()] != 0) {
    return std::nullopt;
  }
  const Bytes rest = part(chunk, key.size() + 1);
  if (type == "tEXt") {
    return PngText{rest};
  }
  if (type == "zTXt") {  // behind the method of compression
    return PngText{part(rest, 1), true};
  }
  // iTXt: whether it is compressed, and how; the language; the key in it.
  const auto end_of = [&](std::size_t at) {
    return static_cast<std::size_t>(std::find(rest.begin() + static_cast<std::ptrdiff_t>(std::min(at, rest.size())),
                                              rest.end(), 0) - rest.begin());
  };
  return PngText{part(rest, end_of(end_of(2) + 1) + 1), byte_at(rest, 0) != 0};
}

// Calls `take(Bytes)` with the text. A build without libdeflate leaves out text that is compressed.
template <class Take>
void with_text(const PngText& found, Take take) noexcept {
  if (!found.is_compressed) {
    take(found.text);
    return;
  }
  const std::unique_ptr<std::uint8_t[]> memory(new (std::nothrow) std::uint8_t[kMaxText]);
  if (memory != nullptr) {
    if (const auto size = inflate_zlib_up_to(found.text, {memory.get(), kMaxText})) {
      take(Bytes(memory.get(), *size));
    }
  }
}

std::optional<unsigned> hex_digit(std::uint8_t letter) noexcept {
  const auto lower = static_cast<std::uint8_t>(letter | 0x20U);
  if (letter >= '0' && letter <= '9') {
    return letter - unsigned{'0'};
  }
  return lower >= 'a' && lower <= 'f' ? std::optional(lower - unsigned{'a'} + 10U) : std::nullopt;
}

// ImageMagick's: a line with nothing, the name, the number of bytes, and the bytes in hexadecimal digits.
std::optional<int> raw_profile_orientation(Bytes text) noexcept {
  constexpr std::size_t kMost = 1 << 16;  // the field stands in the first directory
  for (int line = 0; line < 3 && !text.empty(); ++line) {
    text = part(text, static_cast<std::size_t>(std::find(text.begin(), text.end(), '\n') - text.begin()) + 1);
  }
  const std::unique_ptr<std::uint8_t[]> memory(new (std::nothrow) std::uint8_t[kMost]);
  std::size_t num_digits = 0;
  for (std::size_t i = 0; memory != nullptr && i < text.size() && num_digits < 2 * kMost; ++i) {
    const auto digit = hex_digit(text[i]);
    if (digit) {
      std::uint8_t& byte = memory[num_digits / 2];
      byte = static_cast<std::uint8_t>(num_digits % 2 == 0 ? *digit << 4 : byte | *digit);
      ++num_digits;
    }
  }
  return exif_orientation({memory.get(), num_digits / 2});
}

// PNG, section 5.3: length, name, data, check. As in Pillow, eXIf counts before a raw profile, and XMP last; of several
// chunks of a kind, the last.
int of_png(Bytes data) noexcept {
  std::optional<Bytes> exif;
  std::optional<PngText> profile;
  std::optional<PngText> xmp;
  for (std::size_t at = 8; at + 12 <= data.size();) {
    const std::size_t length = big_endian(data, at, 4);
    const Bytes chunk = part(data, at + 8, length);
    if (has_name(data, at + 4, "eXIf")) {
      exif = chunk;
    }
    for (const std::string_view type : {"tEXt", "zTXt", "iTXt"}) {
      if (has_name(data, at + 4, type)) {
        const auto found = find_text(chunk, type, "Raw profile type exif");
        profile = found ? found : profile;
        const auto packet = find_text(chunk, type, "XML:com.adobe.xmp");
        xmp = packet ? packet : xmp;
      }
    }
    at += 12 + length;
  }
  std::optional<int> orientation;
  if (exif) {
    orientation = exif_orientation(*exif);
  } else if (profile) {
    with_text(*profile, [&](Bytes text) { orientation = raw_profile_orientation(text); });
  }
  if (!orientation && xmp) {
    with_text(*xmp, [&](Bytes text) { orientation = xmp_orientation(text); });
  }
  return shown_orientation(orientation);
}

int of_webp(Bytes data) noexcept {
  const Bytes exif = find_webp_chunk(data, "EXIF");
  const auto orientation = exif.empty() ? std::nullopt : exif_orientation(exif);
  return shown_orientation(orientation ? orientation : xmp_orientation(find_webp_chunk(data, "XMP ")));
}

int of_tiff(Bytes data) noexcept {
  constexpr std::uint32_t kXmp = 700;
  const auto orientation = tiff_orientation(data);
  return shown_orientation(orientation ? orientation : xmp_orientation(TiffDirectory(data).bytes_of(kXmp)));
}

}  // namespace

int stored_orientation(std::span<const std::uint8_t> data) noexcept {
  const std::string_view format = sniff_format(data);
  if (format == "JPEG") {
    return of_jpeg(data);
  }
  if (format == "PNG") {
    return of_png(data);
  }
  if (format == "WebP") {
    return of_webp(data);
  }
  if (format == "TIFF") {
    return of_tiff(data);
  }
  if (format == "AVIF") {
    return orientation_of(inspect_heif(data));
  }
  return kUprightOrientation;
}

}  // namespace spdl
