#include "image/heif.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace spdl {
namespace {

constexpr std::size_t kFullBox = 4;  // version and flags

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

// ISO/IEC 23008-12, 6.5.3, 6.5.9, 6.5.10 and 6.5.12, and all others.
enum class Kind : std::uint8_t { kOther, kSize, kCrop, kRotate, kMirror };

struct Property {
  Kind kind = Kind::kOther;
  std::uint8_t value = 0;
  std::uint32_t at = 0;  // the place of a size or a crop in the properties
};

// Of each property, by its number. Numbers have 15 bits at most, and number 0 is none.
using Properties = std::array<Property, 1 << 15>;

// Reads the boxes once: items may name the same properties again and again.
void read_properties(Bytes boxes, Properties& properties) noexcept {
  const std::uint8_t* begin = boxes.data();
  for (std::size_t number = 1; number < properties.size(); ++number) {
    const auto box = next_box(boxes);
    if (!box) {
      break;
    }
    const auto value = static_cast<std::uint8_t>(byte_at(box->contents, 0));
    if (has_name(box->name, 0, "irot")) {
      properties[number] = {Kind::kRotate, value, 0};
    } else if (has_name(box->name, 0, "imir")) {
      properties[number] = {Kind::kMirror, value, 0};
    } else if (has_name(box->name, 0, "clap")) {
      properties[number] = {Kind::kCrop, 0, static_cast<std::uint32_t>(box->contents.data() - begin)};
    } else if (has_name(box->name, 0, "ispe")) {
      properties[number] = {Kind::kSize, 0, static_cast<std::uint32_t>(box->contents.data() - begin)};
    }
  }
}

}  // namespace

// ISO/IEC 14496-12, 8.11: which properties the primary item has.
HeifFacts inspect_heif(Bytes data) noexcept {
  HeifFacts facts;
  const Bytes meta = part(find_box(data, "meta"), kFullBox);
  const Bytes pitm = find_box(meta, "pitm");
  facts.has_primary = !pitm.empty();
  const std::uint32_t primary = big_endian(pitm, kFullBox, big_endian(pitm, 0, 1) == 0 ? 2 : 4);
  Bytes rest = find_box(meta, "iprp");
  const Bytes container = find_box(rest, "ipco");
  Properties properties{};
  read_properties(container, properties);
  const auto add = [&](HeifStep::Kind kind, int value) {
    if (facts.num_steps < facts.steps.size()) {
      facts.steps[facts.num_steps] = {kind, value, {}};
    }
    ++facts.num_steps;
  };
  const auto apply = [&](const Property& property) {
    switch (property.kind) {
      case Kind::kCrop:
        add(HeifStep::Kind::kCrop, 0);
        for (std::size_t i = 0; facts.num_steps <= facts.steps.size() && i < HeifStep().crop.size(); ++i) {
          facts.steps[facts.num_steps - 1].crop[i] = big_endian(container, property.at + 4 * i, 4);
        }
        break;
      case Kind::kSize:
        facts.width = big_endian(container, property.at + kFullBox, 4);
        facts.height = big_endian(container, property.at + kFullBox + 4, 4);
        break;
      case Kind::kRotate:
        add(HeifStep::Kind::kTurn, property.value & 3);
        facts.quarter_turns = (facts.quarter_turns + property.value) % 4;
        if (facts.is_mirrored_sideways && (property.value & 1) != 0) {  // what was mirrored before is turned, too
          facts.is_mirrored_sideways = !*facts.is_mirrored_sideways;
        }
        break;
      case Kind::kMirror:
        add(HeifStep::Kind::kMirror, property.value & 1);
        facts.is_mirrored_sideways = (property.value & 1) != 0;
        break;
      case Kind::kOther:
        break;
    }
  };
  while (const auto box = next_box(rest)) {
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
        apply(properties[big_endian(ipma, at + i * index_size, index_size) & index_mask]);
      }
      at += num_properties * index_size;
    }
  }
  return facts;
}

// ISO/IEC 23008-12, 6.5.10 and 6.5.12: quarter turns against the clock, then a flip.
int orientation_of(const HeifFacts& facts) noexcept {
  constexpr std::array<int, 4> kTurned = {1, 8, 3, 6};
  constexpr std::array<int, 4> kThenUpDown = {4, 5, 2, 7};
  constexpr std::array<int, 4> kThenSideways = {2, 7, 4, 5};
  const auto turns = static_cast<std::size_t>(facts.quarter_turns & 3);
  if (!facts.is_mirrored_sideways) {
    return kTurned[turns];
  }
  return (*facts.is_mirrored_sideways ? kThenSideways : kThenUpDown)[turns];
}

std::optional<HeifCrop> crop_of(const HeifStep& step, int width, int height) noexcept {
  std::array<std::int64_t, 2> sizes{};
  std::array<std::int64_t, 2> starts{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t whole = i == 0 ? width : height;
    const std::int64_t size = step.crop[2 * i];
    const std::int64_t parts = step.crop[2 * i + 1];
    const auto offset = static_cast<std::int32_t>(step.crop[4 + 2 * i]);
    const std::int64_t unit = step.crop[5 + 2 * i];
    if (parts == 0 || size % parts != 0 || unit == 0) {
      return std::nullopt;
    }
    sizes[i] = size / parts;
    if (sizes[i] < 1 || sizes[i] > whole) {
      return std::nullopt;
    }
    // The centre of the part is that of the picture and the offset. No product of 31 and 32 bits overflows.
    const std::int64_t twice = 2 * std::int64_t{offset} + (whole - sizes[i]) * unit;
    starts[i] = twice / (2 * unit);
    if (twice < 0 || starts[i] > whole - sizes[i]) {
      return std::nullopt;
    }
  }
  return HeifCrop{static_cast<int>(starts[0]), static_cast<int>(starts[1]), static_cast<int>(sizes[0]),
                  static_cast<int>(sizes[1])};
}

void hide_mirroring(std::span<std::uint8_t> data) noexcept {
  Bytes boxes = find_box(find_box(part(find_box(data, "meta"), kFullBox), "iprp"), "ipco");
  while (const auto box = next_box(boxes)) {
    if (has_name(box->name, 0, "imir")) {
      std::memcpy(data.data() + (box->name.data() - data.data()), "free", 4);
    }
  }
}

}  // namespace spdl
