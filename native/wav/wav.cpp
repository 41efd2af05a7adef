#include "wav/wav.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kRiffSize = 12;   // "RIFF", size, "WAVE"
constexpr std::size_t kChunkHeader = 8;  // id, size
constexpr std::size_t kFormatSize = 16;  // what every format chunk has
constexpr std::size_t kDs64Size = 28;
constexpr std::uint32_t kSizeUnknown = 0xffffffff;  // in RF64: see ds64

Error damage(const std::string& reason) { return {ErrorKind::kWav, "read the WAV data", reason}; }

template <class T>
T load(Bytes bytes, std::size_t offset) noexcept {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | bytes[offset + i]);
  }
  return value;
}

std::string_view id_at(Bytes bytes, std::size_t offset) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()) + offset, 4};
}

// Whether sizes of 64 bits may come.
bool read_riff(Bytes file) {
  if (file.size() < kRiffSize) {
    throw damage("it has " + std::to_string(file.size()) + " bytes, too few for a header");
  }
  const std::string_view id = id_at(file, 0);
  if (id == "RIFX") {
    throw damage("it is RIFX, whose samples are big-endian; only RIFF and RF64 are supported");
  }
  const bool is_rf64 = id == "RF64" || id == "BW64";
  if (!is_rf64 && id != "RIFF") {
    throw damage("it is not a WAV file: it does not begin with RIFF");
  }
  if (id_at(file, 8) != "WAVE") {
    throw damage("it is a RIFF file, but not WAVE");
  }
  return is_rf64;
}

std::string name_of_format(unsigned format) {
  switch (format) {
    case 2:
    case 17:
      return "ADPCM";
    case 6:
      return "A-law";
    case 7:
      return "µ-law";
    case 80:
    case 85:
      return "MPEG audio";
    case 0xfffe:
      return "WAVE_FORMAT_EXTENSIBLE";
    default:
      return "a coding that is not known here";
  }
}

const char* typestr_of(const WavHeader& header) {
  const unsigned bits = header.bits_per_sample;
  if (header.audio_format == 1) {
    switch (bits) {
      case 8:
        return "|u1";
      case 16:
        return "<i2";
      case 32:
        return "<i4";
      default:
        throw damage("its samples are PCM of " + std::to_string(bits) +
                     " bits, which no array has; 8, 16 and 32 can be viewed, and load_audio converts the others");
    }
  }
  if (header.audio_format == 3) {
    if (bits == 32 || bits == 64) {
      return bits == 32 ? "<f4" : "<f8";
    }
    throw damage("its samples are floats of " + std::to_string(bits) + " bits; 32 and 64 can be viewed");
  }
  throw damage("its format is " + std::to_string(header.audio_format) + " (" + name_of_format(header.audio_format) +
               "); only PCM (1) and IEEE float (3) can be viewed, and load_audio converts the others");
}

// The first sample that is not before that time, as a number. A time that is meant to be a whole number of samples is one,
// though its product with the rate may come out an error of rounding above.
double first_sample_not_before(double seconds, std::uint32_t rate) noexcept {
  const double samples = seconds * rate;
  const double nearest = std::round(samples);
  const double error = 4 * std::numeric_limits<double>::epsilon() * samples;
  return std::abs(samples - nearest) <= error ? nearest : std::ceil(samples);
}

void check_time(double seconds, const char* what) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw damage(std::string(what) + " must be finite and not negative, got " + std::to_string(seconds));
  }
}

}  // namespace

WavHeader read_wav_header(Bytes file) {
  const bool is_rf64 = read_riff(file);
  WavHeader header;
  bool has_format = false;
  std::uint64_t data_size64 = kSizeUnknown;
  std::size_t at = kRiffSize;
  // The size that RIFF states is not looked at: writers to pipes leave it unset, and chunks say where they end.
  while (file.size() - at >= kChunkHeader) {
    const std::string_view id = id_at(file, at);
    std::uint64_t size = load<std::uint32_t>(file, at + 4);
    at += kChunkHeader;
    const std::size_t left = file.size() - at;
    if (id == "data") {
      if (!has_format) {
        throw damage("its data chunk comes before its format chunk");
      }
      if (is_rf64 && size == kSizeUnknown) {
        size = data_size64;
      }
      if (size > left) {
        throw damage("it is truncated: it should have " + std::to_string(size) + " bytes of samples, and " +
                     std::to_string(left) + " are there" +
                     (size == kSizeUnknown ? " (its writer never filled in the size)" : ""));
      }
      header.data_offset = at;
      header.data_size = size;
      return header;
    }
    if (size > left) {
      throw damage("it is truncated: a chunk before its samples has " + std::to_string(size) + " bytes, and " +
                   std::to_string(left) + " are there");
    }
    if (id == "fmt " && !has_format) {
      if (size < kFormatSize) {
        throw damage("its format has " + std::to_string(size) + " bytes, too few");
      }
      header.audio_format = load<std::uint16_t>(file, at);
      header.num_channels = load<std::uint16_t>(file, at + 2);
      header.sample_rate = load<std::uint32_t>(file, at + 4);
      header.byte_rate = load<std::uint32_t>(file, at + 8);
      header.block_align = load<std::uint16_t>(file, at + 12);
      header.bits_per_sample = load<std::uint16_t>(file, at + 14);
      has_format = true;
    } else if (is_rf64 && id == "ds64" && size >= kDs64Size) {
      data_size64 = load<std::uint64_t>(file, at + 8);
    }
    // Chunks begin at even places.
    at += static_cast<std::size_t>(std::min<std::uint64_t>(size + size % 2, left));
  }
  throw damage(has_format ? "it is truncated: it has no samples" : "it has neither a format chunk nor samples");
}

WavSamples find_wav_samples(const WavHeader& header, std::optional<double> start, std::optional<double> duration) {
  check_time(start.value_or(0), "time_offset_seconds");
  check_time(duration.value_or(0), "duration_seconds");
  WavSamples samples;
  samples.typestr = typestr_of(header);
  if (header.num_channels == 0 || header.sample_rate == 0) {
    throw damage("it has " + std::to_string(header.num_channels) + " channels at " +
                 std::to_string(header.sample_rate) + " Hz");
  }
  const unsigned frame = header.num_channels * (header.bits_per_sample / 8);
  if (header.block_align != frame) {
    throw damage("its samples should have " + std::to_string(frame) + " bytes, and it says " +
                 std::to_string(header.block_align));
  }
  if (header.data_size % frame != 0) {
    throw damage("its " + std::to_string(header.data_size) + " bytes of samples are not a multiple of " +
                 std::to_string(frame));
  }
  const auto total = static_cast<std::size_t>(header.data_size / frame);
  std::size_t first = 0;
  if (start) {
    const double wanted = first_sample_not_before(*start, header.sample_rate);
    // Where there is nothing to come, only a window that starts nowhere is inside.
    const bool is_outside = *start >= static_cast<double>(total) / header.sample_rate;
    if (is_outside && wanted >= static_cast<double>(total) && wanted > 0) {
      throw damage("time_offset_seconds is " + std::to_string(*start) + ", and it ends after " +
                   std::to_string(static_cast<double>(total) / header.sample_rate) + " seconds");
    }
    first = std::min(static_cast<std::size_t>(wanted), total);
  }
  std::size_t count = total - first;
  if (duration) {
    const double end = first_sample_not_before(start.value_or(0) + *duration, header.sample_rate);
    count = end < static_cast<double>(total) ? static_cast<std::size_t>(end) - first : count;
  }
  samples.offset = header.data_offset + first * frame;
  samples.num_samples = count;
  samples.num_channels = header.num_channels;
  return samples;
}

}  // namespace spdl
