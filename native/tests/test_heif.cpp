// What is done with the primary picture of a HEIF file: read from its boxes, and the part that a crop leaves.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include "image/heif.h"

namespace spdl {
namespace {

using Data = std::vector<std::uint8_t>;

void put(Data& data, std::uint32_t value, int size = 4) {
  for (int i = size - 1; i >= 0; --i) {
    data.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
}

Data box(std::string_view name, const std::vector<Data>& parts) {
  std::size_t size = 8;
  for (const Data& part : parts) {
    size += part.size();
  }
  Data data;
  put(data, static_cast<std::uint32_t>(size));
  std::ranges::copy(name, std::back_inserter(data));
  for (const Data& part : parts) {
    std::ranges::copy(part, std::back_inserter(data));
  }
  return data;
}

Data numbers(const std::vector<std::uint32_t>& values) {
  Data data;
  for (const std::uint32_t value : values) {
    put(data, value);
  }
  return data;
}

// A file whose item 1 has these properties, in this order.
Data file_with(const std::vector<Data>& properties) {
  Data association{0, 0, 0, 0, 0, 0, 0, 1, 0, 1, static_cast<std::uint8_t>(properties.size())};
  for (std::size_t i = 0; i < properties.size(); ++i) {
    association.push_back(static_cast<std::uint8_t>(0x80 | (i + 1)));
  }
  return box("meta", {{0, 0, 0, 0},
                      box("pitm", {{0, 0, 0, 0, 0, 1}}),
                      box("iprp", {box("ipco", properties), box("ipma", {association})})});
}

HeifStep crop(const std::array<std::uint32_t, 8>& values) { return {HeifStep::Kind::kCrop, 0, values}; }

constexpr std::uint32_t minus(std::uint32_t value) { return ~value + 1; }

}  // namespace

TEST_CASE("the steps are those of the primary item, in their order") {
  const HeifFacts facts = inspect_heif(
      file_with({box("clap", {numbers({4, 1, 6, 2, minus(1), 2, 0, 1})}), box("irot", {{3}}), box("imir", {{1}})}));
  REQUIRE(facts.num_steps == 3);
  CHECK(facts.steps[0].kind == HeifStep::Kind::kCrop);
  CHECK(facts.steps[0].crop == std::array<std::uint32_t, 8>{4, 1, 6, 2, minus(1), 2, 0, 1});
  CHECK(facts.steps[1].kind == HeifStep::Kind::kTurn);
  CHECK(facts.steps[1].value == 3);
  CHECK(facts.steps[2].kind == HeifStep::Kind::kMirror);
  CHECK(facts.steps[2].value == 1);
}

TEST_CASE("steps that there is no room for are counted") {
  const Data turn = box("irot", {{1}});
  CHECK(inspect_heif(file_with({turn, turn, turn, turn, turn, turn})).num_steps == 6);
  const Data part = box("clap", {numbers({4, 1, 4, 1, 0, 1, 0, 1})});
  CHECK(inspect_heif(file_with({part, part, part, part, part})).num_steps == 5);
}

TEST_CASE("a crop lies around the centre and its offset") {
  // By hand: the left edge is (10 - 4) / 2 = 3, moved by -1.5 and 0.5; the upper one (8 - 3) / 2 = 2.5, rounded down.
  const auto left = crop_of(crop({4, 1, 6, 2, minus(3), 2, 0, 1}), 10, 8);
  REQUIRE(left);
  CHECK(left->left == 1);
  CHECK(left->top == 2);
  CHECK(left->width == 4);
  CHECK(left->height == 3);
  const auto right = crop_of(crop({4, 1, 3, 1, 3, 1, minus(5), 2}), 10, 8);
  REQUIRE(right);
  CHECK(right->left == 6);
  CHECK(right->top == 0);
}

TEST_CASE("a crop that cannot be is none") {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  constexpr int kWide = std::numeric_limits<int>::max();
  CHECK(crop_of(crop({10, 1, 8, 1, 0, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({11, 1, 8, 1, 0, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({4, 1, 8, 1, 4, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({4, 1, 8, 1, minus(4), 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({5, 2, 8, 1, 0, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({4, 0, 8, 1, 0, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({4, 1, 8, 1, 0, 0, 0, 1}), 10, 8));
  CHECK(!crop_of(crop({0, 1, 8, 1, 0, 1, 0, 1}), 10, 8));
  CHECK(!crop_of(HeifStep(), 10, 8));
  CHECK(!crop_of(crop({kMost, 1, kMost, 1, kMost, kMost, kMost, kMost}), kWide, kWide));
  CHECK(crop_of(crop({1, 1, 1, 1, 0x7fffffff, kMost, minus(1), kMost}), kWide, kWide));
}

}  // namespace spdl
