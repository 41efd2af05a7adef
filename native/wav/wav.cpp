#include "wav/wav.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time_window.h"

namespace spdl {
namespace {

using Bytes = std::span<const std::uint8_t>;

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kRiffSize = 12;    // "RIFF", size, "WAVE"
constexpr std::size_t kChunkHeader = 8;  // id, size
constexpr std::size_t kFormatSize = 16;  // what every format chunk has
constexpr std::size_t kExtensibleSize = 40;
constexpr std::size_t kDs64Size = 28;
constexpr std::uint64_t kSizeUnknown = 0xffffffff;  // in RF64: see ds64
// What writers to pipes put where they do not know the size, as they cannot go back: FFmpeg the largest number, SoX and
// others a little less or more than half of it.
constexpr std::uint64_t kLeastUnset = 0x7ffff000;
constexpr unsigned kPcm = 1, kFloat = 3, kALaw = 6, kMuLaw = 7, kExtensible = 0xfffe;

Error damage(const std::string& reason) { return {ErrorKind::kWav, "read the WAV data", reason}; }

// Numbers in the byte order of the file.
class Fields {
 public:
  Fields(Bytes bytes, bool is_big_endian) : bytes_(bytes), is_big_endian_(is_big_endian) {}

  template <class T>
  T at(std::size_t offset) const noexcept {
    T value;
    std::array<std::uint8_t, sizeof(T)> stored;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), sizeof(T), stored.begin());
    if (is_big_endian_) {
      std::reverse(stored.begin(), stored.end());
    }
    std::memcpy(&value, stored.data(), sizeof(T));
    return value;
  }
  std::string_view id_at(std::size_t offset) const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, 4};
  }

 private:
  Bytes bytes_;
  bool is_big_endian_;
};

std::string name_of_format(const WavHeader& header) {
  if (header.coding == WavCoding::kALaw) {
    return "A-law";
  }
  if (header.coding == WavCoding::kMuLaw) {
    return "µ-law";
  }
  switch (header.audio_format) {
    case 2:
    case 17:
      return "ADPCM";
    case 80:
    case 85:
      return "MPEG audio";
    case kExtensible:
      return "WAVE_FORMAT_EXTENSIBLE";
    default:
      return "a coding that is not known here";
  }
}

WavCoding coding_of(unsigned format) noexcept {
  switch (format) {
    case kPcm:
      return WavCoding::kInteger;
    case kFloat:
      return WavCoding::kFloat;
    case kALaw:
      return WavCoding::kALaw;
    case kMuLaw:
      return WavCoding::kMuLaw;
    default:
      return WavCoding::kOther;
  }
}

// A sub-format is a GUID that begins with the number of a format; the rest is always this (mmreg.h,
// DEFINE_WAVEFORMATEX_GUID), of which the first two numbers of 16 bits have the file's byte order.
constexpr std::array<std::uint8_t, 8> kSubFormatTail = {0x80, 0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71};

WavCoding coding_of_extensible(const Fields& fields, Bytes format) noexcept {
  const bool is_known = fields.at<std::uint16_t>(28) == 0 && fields.at<std::uint16_t>(30) == 0x10 &&
                        std::equal(kSubFormatTail.begin(), kSubFormatTail.end(), format.begin() + 32);
  return is_known ? coding_of(fields.at<std::uint32_t>(24)) : WavCoding::kOther;
}

// The number of bytes in which a sample is stored: what the size of a block leaves for each channel, where that is enough.
// Writers that leave the size of a block out mean the smallest number.
unsigned stored_bytes(const WavHeader& header) noexcept {
  if (header.coding == WavCoding::kOther || header.num_channels == 0 || header.bits_per_sample == 0) {
    return 0;
  }
  const unsigned least = (header.bits_per_sample + 7) / 8;
  const unsigned bytes = header.block_align == 0 ? least : header.block_align / header.num_channels;
  if (header.block_align % header.num_channels != 0 || bytes < least) {
    return 0;
  }
  switch (header.coding) {
    case WavCoding::kInteger:
      if (least > 4 && least != 8) {
        return 0;
      }
      return bytes == least || bytes == 4 ? bytes : 0;
    case WavCoding::kFloat:
      return (bytes == 4 || bytes == 8) && least == bytes ? bytes : 0;
    default:
      return bytes == 1 ? bytes : 0;
  }
}

void read_format(const Fields& fields, Bytes format, WavHeader& header) {
  if (format.size() < kFormatSize) {
    throw damage("its format has " + std::to_string(format.size()) + " bytes, too few");
  }
  header.audio_format = fields.at<std::uint16_t>(0);
  header.num_channels = fields.at<std::uint16_t>(2);
  header.sample_rate = fields.at<std::uint32_t>(4);
  header.byte_rate = fields.at<std::uint32_t>(8);
  header.block_align = fields.at<std::uint16_t>(12);
  header.bits_per_sample = fields.at<std::uint16_t>(14);
  header.coding = coding_of(header.audio_format);
  if (header.audio_format == kExtensible && format.size() >= kExtensibleSize) {
    header.coding = coding_of_extensible(fields, format);
    header.channel_mask = fields.at<std::uint32_t>(20);
  }
  header.sample_bytes = stored_bytes(header);
}

// Whether only chunks follow up to the end of the file, and no samples.
bool has_only_chunks(const WavBytesAt& bytes_at, std::uint64_t at, std::uint64_t file_size, bool is_big_endian) {
  while (at < file_size) {
    const Bytes bytes = bytes_at(at, kChunkHeader);
    if (bytes.size() < kChunkHeader ||
        !std::all_of(bytes.begin(), bytes.begin() + 4, [](std::uint8_t byte) { return byte >= 0x20 && byte < 0x7f; })) {
      return false;
    }
    const std::uint64_t size = Fields(bytes, is_big_endian).at<std::uint32_t>(4);
    at += kChunkHeader + size;
    if (at < file_size) {
      at += size % 2;
    }
  }
  return at == file_size;
}

// The place and size of the samples, whose chunk states `size`.
void place_data(const WavBytesAt& bytes_at, std::uint64_t at, std::uint64_t size, std::optional<std::uint64_t> file_size,
                WavHeader& header) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t left = file_size ? *file_size - at : kMost;
  header.data_offset = at;
  const bool is_empty = size == 0 && file_size && has_only_chunks(bytes_at, at, *file_size, header.is_big_endian);
  const bool is_placeholder = size >= kLeastUnset && size <= kSizeUnknown && (size > left || size == kSizeUnknown);
  const bool is_unset = (size == 0 && !is_empty) || size > kMost || is_placeholder;
  if (!is_unset) {
    header.stated_size = size;
  }
  header.data_size = is_unset ? left : std::min(size, left);
}

const char* typestr_of(const WavHeader& header) {
  const unsigned bits = header.bits_per_sample;
  const bool is_float = header.coding == WavCoding::kFloat;
  if (!is_float && header.coding != WavCoding::kInteger) {
    throw damage("its format is " + std::to_string(header.audio_format) + " (" + name_of_format(header) +
                 "); only PCM (1) and IEEE float (3) can be viewed, and load_audio converts the others");
  }
  if (is_float && bits != 32 && bits != 64) {
    throw damage("its samples are floats of " + std::to_string(bits) + " bits; 32 and 64 can be viewed");
  }
  switch (header.sample_bytes) {
    case 0:
      throw damage(std::string("its samples are ") + (is_float ? "floats" : "PCM") + " of " + std::to_string(bits) +
                   " bits; one of all channels should have " +
                   std::to_string(header.num_channels * ((bits + 7) / 8)) + " bytes, and it says " +
                   std::to_string(header.block_align));
    case 1:
      return "|u1";
    case 2:
      return "<i2";
    case 3:
      return "<i4";
    case 4:
      return is_float ? "<f4" : "<i4";
    default:
      break;
  }
  if (!is_float) {
    throw damage("its samples are PCM of " + std::to_string(bits) +
                 " bits; up to 32 can be given, and load_audio converts the others");
  }
  return "<f8";
}

void check_time(double seconds, const char* what) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw damage(std::string(what) + " must be finite and not negative, got " + std::to_string(seconds));
  }
}

// The first sample from the end of the window on. The sum of start and duration may come out an error of rounding above a
// whole number of samples.
double sample_at_sum(double start, double duration, std::uint32_t rate) noexcept {
  const double samples = (start + duration) * rate;
  const double nearest = std::round(samples);
  const double error = 4 * std::numeric_limits<double>::epsilon() * samples;
  return std::abs(samples - nearest) <= error ? nearest : std::ceil(samples);
}

template <class T>
void swap_all(Bytes stored, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i + sizeof(T) <= stored.size(); i += sizeof(T)) {
    for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
      out[i + byte] = stored[i + sizeof(T) - 1 - byte];
    }
  }
}

}  // namespace

WavHeader find_wav_header(const WavBytesAt& bytes_at, std::optional<std::uint64_t> file_size) {
  const Bytes start = bytes_at(0, kRiffSize);
  if (start.size() < kRiffSize) {
    throw damage("it has " + std::to_string(start.size()) + " bytes, too few for a header");
  }
  const std::string_view riff = Fields(start, false).id_at(0);
  WavHeader header;
  header.is_64 = riff == "RF64" || riff == "BW64";
  header.is_big_endian = riff == "RIFX";
  if (!header.is_64 && !header.is_big_endian && riff != "RIFF") {
    throw damage("it is not a WAV file: it does not begin with RIFF");
  }
  if (Fields(start, false).id_at(8) != "WAVE") {
    throw damage("it is a RIFF file, but not WAVE");
  }
  bool has_format = false;
  std::uint64_t data_size64 = 0;
  std::uint64_t at = kRiffSize;
  // The size that RIFF states is not looked at: writers to pipes leave it unset, and chunks say where they end.
  while (true) {
    const Bytes bytes = bytes_at(at, kChunkHeader + kExtensibleSize);
    if (bytes.size() < kChunkHeader) {
      throw damage(has_format ? "it is truncated: it has no samples" : "it has neither a format chunk nor samples");
    }
    const std::string_view id = Fields(bytes, false).id_at(0);
    std::uint64_t size = Fields(bytes, header.is_big_endian).at<std::uint32_t>(4);
    at += kChunkHeader;
    if (id == "data") {
      if (!has_format) {
        throw damage("its data chunk comes before its format chunk");
      }
      if (header.is_64 && size == kSizeUnknown) {
        size = data_size64;
      }
      place_data(bytes_at, at, size, file_size, header);
      return header;
    }
    const Bytes content = bytes.subspan(kChunkHeader).first(std::min<std::uint64_t>(bytes.size() - kChunkHeader, size));
    const std::uint64_t left = file_size ? *file_size - at : size;
    if (size > left || (content.size() < size && content.size() < kExtensibleSize)) {
      throw damage("it is truncated: a chunk before its samples has " + std::to_string(size) + " bytes, and " +
                   std::to_string(std::min<std::uint64_t>(left, file_size ? left : content.size())) + " are there");
    }
    const Fields fields(content, header.is_big_endian);
    if (id == "fmt " && !has_format) {
      read_format(fields, content, header);
      has_format = true;
    } else if (header.is_64 && id == "ds64" && size >= kDs64Size) {
      data_size64 = fields.at<std::uint64_t>(8);
    }
    // Chunks begin at even places.
    at += file_size ? std::min(size + size % 2, left) : size + size % 2;
  }
}

WavHeader read_wav_header(Bytes file) {
  const auto bytes_at = [&](std::uint64_t position, std::size_t size) {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(position, file.size()));
    return file.subspan(from, std::min(size, file.size() - from));
  };
  const WavHeader header = find_wav_header(bytes_at, file.size());
  if (header.stated_size && *header.stated_size > header.data_size) {
    throw damage("it is truncated: it should have " + std::to_string(*header.stated_size) + " bytes of samples, and " +
                 std::to_string(header.data_size) + " are there");
  }
  return header;
}

WavSamples find_wav_samples(const WavHeader& header, std::optional<double> start, std::optional<double> duration) {
  check_time(start.value_or(0), "time_offset_seconds");
  check_time(duration.value_or(0), "duration_seconds");
  if (header.num_channels == 0 || header.sample_rate == 0 || header.sample_rate > std::numeric_limits<int>::max()) {
    throw damage("it has " + std::to_string(header.num_channels) + " channels at " +
                 std::to_string(header.sample_rate) + " Hz");
  }
  WavSamples samples;
  samples.typestr = typestr_of(header);
  samples.element_bytes = header.sample_bytes == 3 ? 4 : header.sample_bytes;
  samples.is_view = header.sample_bytes != 3 && (!header.is_big_endian || header.sample_bytes == 1);
  const std::uint64_t frame = header.frame_bytes();
  if (header.stated_size && header.data_size % frame != 0) {
    throw damage("its " + std::to_string(header.data_size) + " bytes of samples are not a multiple of " +
                 std::to_string(frame));
  }
  const auto total = static_cast<std::size_t>(header.data_size / frame);
  std::size_t first = 0;
  if (start) {
    const std::int64_t wanted = first_sample_from(*start, static_cast<int>(header.sample_rate));
    // Where there is nothing to come, only a window that starts nowhere is inside.
    const bool is_outside = *start >= static_cast<double>(total) / header.sample_rate;
    if (is_outside && static_cast<std::uint64_t>(wanted) >= total && wanted > 0) {
      throw damage("time_offset_seconds is " + std::to_string(*start) + ", and it ends after " +
                   std::to_string(static_cast<double>(total) / header.sample_rate) + " seconds");
    }
    first = std::min(static_cast<std::size_t>(wanted), total);
  }
  std::size_t count = total - first;
  if (duration) {
    const double end = sample_at_sum(start.value_or(0), *duration, header.sample_rate);
    count = end < static_cast<double>(total) ? std::max(static_cast<std::size_t>(end), first) - first : count;
  }
  samples.offset = static_cast<std::size_t>(header.data_offset + first * frame);
  samples.num_samples = count;
  samples.num_channels = header.num_channels;
  return samples;
}

void copy_wav_samples(const WavHeader& header, const WavSamples& samples, Bytes file, std::uint8_t* out) noexcept {
  const Bytes stored =
      file.subspan(samples.offset, samples.num_samples * static_cast<std::size_t>(header.frame_bytes()));
  switch (header.sample_bytes) {
    case 3:
      for (std::size_t i = 0; i + 3 <= stored.size(); i += 3, out += 4) {
        out[0] = 0;
        for (std::size_t byte = 0; byte < 3; ++byte) {
          out[1 + byte] = stored[i + (header.is_big_endian ? 2 - byte : byte)];
        }
      }
      break;
    case 2:
      swap_all<std::uint16_t>(stored, out);
      break;
    case 4:
      swap_all<std::uint32_t>(stored, out);
      break;
    default:
      swap_all<std::uint64_t>(stored, out);
      break;
  }
}

}  // namespace spdl
