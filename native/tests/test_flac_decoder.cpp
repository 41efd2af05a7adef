#include "media/flac_decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "media/flac_subframes.h"

namespace spdl {
namespace {

using Samples = std::vector<std::int32_t>;

class BitWriter {
 public:
  void put(std::int64_t value, int count) {
    for (int i = count - 1; i >= 0; --i) {
      if (num_bits_++ % 8 == 0) {
        bytes_.push_back(0);
      }
      bytes_.back() = static_cast<std::uint8_t>(bytes_.back() | (value >> i & 1) << (7 - (num_bits_ - 1) % 8));
    }
  }
  void put_zeros(std::int64_t count) {
    for (; count > 0; --count) {
      put(0, 1);
    }
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t num_bits_ = 0;
};

// What encoders may write, chosen at random.
class Encoder {
 public:
  explicit Encoder(unsigned seed) : random_(seed) {}

  int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  Samples noise(int count, int num_bits) {
    Samples samples(static_cast<std::size_t>(count));
    const int limit = 1 << (num_bits - 1);
    for (auto& sample : samples) {
      sample = number(-limit, limit - 1);
    }
    return samples;
  }

  // `kind`: of the subframe, as it is stored (RFC 9639, table 19).
  void subframe(BitWriter& to, int kind, const Samples& samples, int num_bits, int num_wasted = 0) {
    to.put(kind, 7);
    to.put(num_wasted > 0 ? 1 : 0, 1);
    if (num_wasted > 0) {
      to.put_zeros(num_wasted - 1);
      to.put(1, 1);
    }
    Samples stored = samples;
    for (auto& sample : stored) {
      sample >>= num_wasted;
    }
    num_bits -= num_wasted;
    if (kind < 2) {
      for (std::size_t i = 0; i < (kind == 0 ? 1 : stored.size()); ++i) {
        to.put(stored[i], num_bits);
      }
      return;
    }
    const int order = kind < 32 ? kind - 8 : kind - 31;
    std::vector<std::int64_t> factors;
    int shift = 0;
    for (int i = 0; i < order; ++i) {
      to.put(stored[static_cast<std::size_t>(i)], num_bits);
    }
    if (kind < 32) {
      static const std::vector<std::int64_t> kFixed[] = {{}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};
      factors = kFixed[order];
    } else {
      const int precision = number(2, 15);
      shift = number(precision / 2, precision - 1);
      to.put(precision - 1, 4);
      to.put(shift, 5);
      for (int i = 0; i < order; ++i) {
        factors.push_back(number(-(1 << (precision - 1)) / 2, (1 << (precision - 1)) / 2 - 1));
        to.put(factors.back(), precision);
      }
    }
    std::vector<std::int64_t> residual;
    for (std::size_t i = factors.size(); i < stored.size(); ++i) {
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < factors.size(); ++k) {
        sum += factors[k] * stored[i - 1 - k];
      }
      residual.push_back(stored[i] - (sum >> shift));
    }
    put_residual(to, residual, order);
  }

 private:
  void put_residual(BitWriter& to, const std::vector<std::int64_t>& residual, int order) {
    const int num_samples = static_cast<int>(residual.size()) + order;
    int partition_order = number(0, 4);
    while (num_samples % (1 << partition_order) != 0 || num_samples >> partition_order < order) {
      --partition_order;
    }
    const bool is_wide = number(0, 1) == 1;
    to.put(is_wide ? 1 : 0, 2);
    to.put(partition_order, 4);
    const int length = num_samples >> partition_order;
    auto at = residual.begin();
    for (int i = 0; i < 1 << partition_order; ++i) {
      const auto end = at + (i == 0 ? length - order : length);
      std::uint64_t most = 0;
      for (auto each = at; each != end; ++each) {
        most = std::max(most, folded(*each));
      }
      const int width = static_cast<int>(std::bit_width(most));
      // So that between none and some hundreds of zeros are in front of a value.
      const int parameter = std::max(width - number(0, number(0, 3) == 0 ? 9 : 4), 0);
      const bool is_escape = parameter > (is_wide ? 30 : 14) || (number(0, 5) == 0 && width < 31);
      to.put(is_escape ? (is_wide ? 31 : 15) : parameter, is_wide ? 5 : 4);
      if (is_escape) {
        to.put(width == 0 ? 0 : width + 1, 5);
      }
      for (; at != end; ++at) {
        if (is_escape) {
          to.put(*at, width == 0 ? 0 : width + 1);
        } else {
          to.put_zeros(static_cast<std::int64_t>(folded(*at) >> parameter));
          to.put(1, 1);
          to.put(static_cast<std::int64_t>(folded(*at)), parameter);
        }
      }
    }
  }

  static std::uint64_t folded(std::int64_t value) {
    return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
  }

  std::mt19937 random_;
};

// The samples of one channel, behind margins full of noise.
std::pair<bool, Samples> decoded(const FlacKernels& kernels, std::span<const std::uint8_t> bytes, int num_samples,
                                 int num_bits) {
  Samples memory(static_cast<std::size_t>(num_samples + kFlacRowMargin), 12345);
  const FlacRows rows{memory.data() + kFlacRowMargin, num_samples, 1, num_samples, {num_bits}};
  const bool is_right = kernels.decode(bytes.data(), bytes.data() + bytes.size(), rows);
  return {is_right, Samples(memory.begin() + kFlacRowMargin, memory.end())};
}

std::vector<const FlacKernels*> all_kernels() {
  std::vector<const FlacKernels*> all{&kFlacKernels};
  if (const FlacKernels& chosen = choose_flac_kernels(); &chosen != &kFlacKernels) {
    all.push_back(&chosen);
  }
  return all;
}

}  // namespace

TEST_CASE("flac: subframes of all kinds are the samples that were encoded") {
  Encoder encoder(1);
  std::vector<int> kinds{0, 1, 8, 9, 10, 11, 12};
  for (int order = 1; order <= 32; ++order) {
    kinds.push_back(31 + order);
  }
  for (int round = 0; round < 6; ++round) {
    for (const int kind : kinds) {
      const int num_samples = encoder.number(32, 40) * 16 / (round % 2 + 1);
      const int num_bits = encoder.number(4, 25);
      const int num_wasted = round == 2 ? encoder.number(1, 3) : 0;
      Samples samples = encoder.noise(num_samples, num_bits);
      for (auto& sample : samples) {
        sample = kind == 0 ? -(1 << num_wasted) : sample >> num_wasted << num_wasted;
      }
      BitWriter to;
      encoder.subframe(to, kind, samples, num_bits, num_wasted);
      for (const FlacKernels* kernels : all_kernels()) {
        CAPTURE(kind);
        CAPTURE(num_bits);
        const auto [is_right, got] = decoded(*kernels, to.bytes(), num_samples, num_bits);
        CHECK(is_right);
        CHECK(got == samples);
      }
    }
  }
}

TEST_CASE("flac: a frame that ends early or late is refused, wherever it is cut") {
  Encoder encoder(2);
  const Samples samples = encoder.noise(64, 16);
  for (const int kind : {0, 1, 10, 39}) {
    BitWriter to;
    encoder.subframe(to, kind, samples, 16);
    std::vector<std::uint8_t> bytes = to.bytes();
    for (const FlacKernels* kernels : all_kernels()) {
      for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_FALSE(decoded(*kernels, cut, 64, 16).first);
      }
    }
    bytes.push_back(0);
    CHECK_FALSE(decoded(kFlacKernels, bytes, 64, 16).first);
  }
}

TEST_CASE("flac: a frame with many zeros ends, and is refused") {
  for (const FlacKernels* kernels : all_kernels()) {
    std::vector<std::uint8_t> bytes(100000, 0);
    bytes[0] = 9 << 1;  // fixed, order 1
    CHECK_FALSE(decoded(*kernels, bytes, 4096, 16).first);
  }
}

TEST_CASE("flac: both channels come back from each way to store them") {
  Encoder encoder(3);
  const Samples left = encoder.noise(100, 16);
  const Samples right = encoder.noise(100, 16);
  const auto coded = [&](FlacStereo stereo, std::size_t i) -> std::pair<std::int32_t, std::int32_t> {
    const std::int32_t side = left[i] - right[i];
    switch (stereo) {
      case FlacStereo::kLeftSide:
        return {left[i], side};
      case FlacStereo::kSideRight:
        return {side, right[i]};
      case FlacStereo::kMidSide:
        return {(left[i] + right[i]) >> 1, side};
      default:
        return {left[i], right[i]};
    }
  };
  for (const auto stereo : {FlacStereo::kNone, FlacStereo::kLeftSide, FlacStereo::kSideRight, FlacStereo::kMidSide}) {
    Samples stored(200);
    for (std::size_t i = 0; i < 100; ++i) {
      std::tie(stored[i], stored[i + 100]) = coded(stereo, i);
    }
    const FlacRows rows{stored.data(), 100, 2, 100, {}};
    for (const FlacKernels* kernels : all_kernels()) {
      std::vector<std::int16_t> narrow(200);
      Samples wide(200);
      kernels->to_int16(rows, stereo, 0, narrow.data());
      kernels->to_int32(rows, stereo, 12, wide.data());
      for (std::size_t i = 0; i < 100; ++i) {
        CHECK(narrow[2 * i] == left[i]);
        CHECK(narrow[2 * i + 1] == right[i]);
        CHECK(wide[2 * i] == left[i] * 4096);
        CHECK(wide[2 * i + 1] == right[i] * 4096);
      }
    }
  }
}

}  // namespace spdl
