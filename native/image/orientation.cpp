#include "image/orientation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/sniff.h"
#include "image/bytes.h"
#include "image/exif.h"

namespace spdl {
namespace {

int of_exif_or_tiff(Bytes bytes) noexcept {
  return has_name(bytes, 0, "Exif") ? exif_orientation(bytes) : tiff_orientation(bytes);
}

// ITU-T T.81, annex B: markers with lengths up to the first scan.
int of_jpeg(Bytes data) noexcept {
  constexpr std::uint32_t kApp1 = 0xe1;
  constexpr std::uint32_t kStartOfScan = 0xda;
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
      const int orientation = exif_orientation(part(data, at + 4, length - 2));
      if (orientation != kUprightOrientation) {
        return orientation;
      }
    }
    at += 2 + length;
  }
  return kUprightOrientation;
}

// PNG, section 5.3: length, name, data, check.
int of_png(Bytes data) noexcept {
  for (std::size_t at = 8; at + 12 <= data.size();) {
    const std::size_t length = big_endian(data, at, 4);
    if (has_name(data, at + 4, "eXIf")) {
      return of_exif_or_tiff(part(data, at + 8, length));
    }
    at += 12 + length;
  }
  return kUprightOrientation;
}

// RFC 9649, section 2.3: name, little-endian length, data, padding to an even length.
int of_webp(Bytes data) noexcept {
  for (std::size_t at = 12; at + 8 <= data.size();) {
    const std::size_t length = little_endian(data, at + 4, 4);
    if (has_name(data, at, "EXIF")) {
      return of_exif_or_tiff(part(data, at + 8, length));
    }
    at += 8 + length + length % 2;
  }
  return kUprightOrientation;
}

// ISO/IEC 14496-12, 4.2: a box is its size, its name and its contents.
struct Box {
  Bytes name;
  Bytes contents;
};

// The box at the front of `rest`, which is moved past it.
std::optional<Box> next_box(Bytes& rest) noexcept {
  std::size_t size = big_endian(rest, 0, 4);
  std::size_t header = 8;
  if (size == 1) {  // the size follows the name, in 64 bits
    header = 16;
    size = std::size_t{big_endian(rest, 8, 4)} << 32 | big_endian(rest, 12, 4);
  } else if (size == 0) {
    size = rest.size();
  }
  if (size < header || rest.size() < header) {
    return std::nullopt;
  }
  const Box box{rest.subspan(4, 4), part(rest, header, size - header)};
  rest = rest.subspan(std::min(size, rest.size()));
  return box;
}

Bytes find_box(Bytes boxes, std::string_view name) noexcept {
  while (const auto box = next_box(boxes)) {
    if (has_name(box->name, 0, name)) {
      return box->contents;
    }
  }
  return {};
}

// ISO/IEC 23008-12, 6.5.10 and 6.5.12, and all others.
enum class Transformation : std::uint8_t { kNone, kRotate, kMirror };

struct Property {
  Transformation transformation = Transformation::kNone;
  std::uint8_t value = 0;
};

// Of each property, by its number, how it turns the picture. Numbers have 15 bits at most, and number 0 is none.
using Properties = std::array<Property, 1 << 15>;

// Reads the boxes once: items may name the same properties again and again.
void read_properties(Bytes boxes, Properties& properties) noexcept {
  for (std::size_t number = 1; number < properties.size(); ++number) {
    const auto box = next_box(boxes);
    if (!box) {
      break;
    }
    const auto value = static_cast<std::uint8_t>(byte_at(box->contents, 0));
    if (has_name(box->name, 0, "irot")) {
      properties[number] = {Transformation::kRotate, value};
    } else if (has_name(box->name, 0, "imir")) {
      properties[number] = {Transformation::kMirror, value};
    }
  }
}

// ISO/IEC 23008-12, 6.5.10 and 6.5.12: quarter turns against the clock, then a flip.
int of_turn_and_flip(std::uint32_t quarter_turns, std::optional<bool> flips_sideways) noexcept {
  constexpr std::array<int, 4> kTurned = {1, 8, 3, 6};
  constexpr std::array<int, 4> kThenUpDown = {4, 5, 2, 7};
  constexpr std::array<int, 4> kThenSideways = {2, 7, 4, 5};
  if (!flips_sideways) {
    return kTurned[quarter_turns & 3U];
  }
  return (*flips_sideways ? kThenSideways : kThenUpDown)[quarter_turns & 3U];
}

// ISO/IEC 14496-12, 8.11: which properties the primary item has.
int of_heif(Bytes data) noexcept {
  constexpr std::size_t kFullBox = 4;  // version and flags
  const Bytes full_meta = find_box(data, "meta");
  const Bytes meta = part(full_meta, kFullBox);
  const Bytes pitm = find_box(meta, "pitm");
  const std::uint32_t primary = big_endian(pitm, kFullBox, big_endian(pitm, 0, 1) == 0 ? 2 : 4);
  Bytes properties = find_box(meta, "iprp");
  Properties transformations{};
  read_properties(find_box(properties, "ipco"), transformations);
  std::uint32_t turns = 0;
  std::optional<bool> flip;
  while (const auto box = next_box(properties)) {
    if (!has_name(box->name, 0, "ipma")) {
      continue;
    }
    const Bytes ipma = box->contents;
    const std::size_t id_size = big_endian(ipma, 0, 1) == 0 ? 2 : 4;
    const std::size_t index_size = (big_endian(ipma, 3, 1) & 1U) != 0 ? 2 : 1;
    const std::uint32_t index_mask = index_size == 2 ? 0x7fffU : 0x7fU;
    const std::uint32_t num_items = big_endian(ipma, kFullBox, 4);
    std::size_t at = kFullBox + 4;
    for (std::uint32_t item = 0; item < num_items && at < ipma.size(); ++item) {
      const std::uint32_t id = big_endian(ipma, at, id_size);
      const std::uint32_t num_properties = big_endian(ipma, at + id_size, 1);
      at += id_size + 1;
      for (std::uint32_t i = 0; id == primary && i < num_properties; ++i) {
        const Property property = transformations[big_endian(ipma, at + i * index_size, index_size) & index_mask];
        if (property.transformation == Transformation::kRotate) {
          turns = property.value & 3U;
        } else if (property.transformation == Transformation::kMirror) {
          flip = (property.value & 1U) != 0;
        }
      }
      at += num_properties * index_size;
    }
  }
  return of_turn_and_flip(turns, flip);
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
    return tiff_orientation(data);
  }
  if (format == "AVIF" || format == "HEIF") {
    return of_heif(data);
  }
  return kUprightOrientation;
}

}  // namespace spdl
