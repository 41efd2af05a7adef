#include "media/flac_frames.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "media/flac_header.h"

namespace spdl {
namespace {

constexpr std::size_t kFrameChecksum = 2;
constexpr std::size_t kPiece = 4096;  // that BytesAt gives at once

std::uint64_t big_endian(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : bytes) {
    value = value << 8 | byte;
  }
  return value;
}

struct Header {
  std::int64_t first = 0;
  int num_samples = 0;
};

// None if that is not the header of a frame of the stream.
std::optional<Header> parse_header(const FlacStream& stream, std::span<const std::uint8_t> at) noexcept {
  if (at.size() < 2 || at[0] != 0xff || at[1] != (stream.is_variable ? 0xf9 : 0xf8)) {
    return std::nullopt;
  }
  const auto header = parse_flac_header(at);
  if (!header || (header->num_bits != 0 && header->num_bits != stream.num_bits) ||
      header->num_channels != stream.num_channels || header->num_samples > stream.num_samples_of_block ||
      (header->sample_rate != 0 && header->sample_rate != stream.sample_rate)) {
    return std::nullopt;
  }
  return Header{stream.is_variable ? header->number : header->number * stream.num_samples_of_block, header->num_samples};
}

// Behind the tags in front of the file.
std::int64_t skip_id3(const BytesAt& bytes_at) {
  constexpr std::size_t kTagHeader = 10;
  std::int64_t position = 0;
  for (;;) {
    const auto bytes = bytes_at(position, kTagHeader);
    if (bytes.size() < kTagHeader || std::memcmp(bytes.data(), "ID3", 3) != 0) {
      return position;
    }
    std::int64_t size = 0;
    for (const std::uint8_t byte : bytes.subspan(6, 4)) {
      size = size << 7 | (byte & 0x7f);
    }
    const bool has_footer = (bytes[5] & 0x10) != 0;
    position += static_cast<std::int64_t>(kTagHeader) * (has_footer ? 2 : 1) + size;
  }
}

// One file. One thread per object.
class Frames {
 public:
  // `checks_probes`: do not take a header for that of a frame unless the checksum of the frame is right.
  Frames(const FlacStream& stream, std::int64_t file_size, const BytesAt& bytes_at, bool checks_probes)
      : stream_(stream), file_size_(file_size), bytes_at_(bytes_at), checks_probes_(checks_probes) {}

  std::optional<FlacFrames> find(std::int64_t first, std::int64_t end) {
    std::optional<FlacFrame> frame = find_before(first);
    FlacFrames found;
    if (frame && stream_.num_samples > 0) {
      const double share = static_cast<double>(end - frame->first) / static_cast<double>(stream_.num_samples);
      const double expected = std::clamp(share * 1.25, 0.0, 1.0) * static_cast<double>(file_size_);
      constexpr double kMostAtFirst = 1 << 24;  // a file may state anything
      found.bytes.reserve(static_cast<std::size_t>(std::min(expected, kMostAtFirst)));
    }
    while (frame && frame->first < end) {
      std::optional<FlacFrame> next;
      const std::size_t num_before = found.bytes.size();
      if (!measure(*frame, next, &found.bytes)) {
        return std::nullopt;
      }
      if (frame->first + frame->num_samples > first) {
        found.frames.push_back(*frame);
      } else {
        found.bytes.resize(num_before);
      }
      if (!next && stream_.num_samples > 0 && frame->first + frame->num_samples != stream_.num_samples) {
        return std::nullopt;
      }
      frame = next;
    }
    return found;
  }

 private:
  // More than any encoder makes of a frame: samples as they are, one bit more of a difference of channels.
  std::size_t most_bytes() const noexcept {
    return kLongestFlacHeader + kFrameChecksum +
           static_cast<std::size_t>(stream_.num_channels) *
               (static_cast<std::size_t>(stream_.num_samples_of_block) * static_cast<std::size_t>(stream_.num_bits + 1) / 8 +
                16);
  }

  std::optional<FlacFrame> frame_at(std::int64_t position) const {
    const auto header = parse_header(stream_, bytes_at_(position, kLongestFlacHeader));
    return header ? std::optional(FlacFrame{position, 0, header->first, header->num_samples}) : std::nullopt;
  }

  // Finds the end of a frame, and the frame behind it, none if it is the last one. Appends its bytes. False if it is not
  // one.
  bool measure(FlacFrame& frame, std::optional<FlacFrame>& next, std::vector<std::uint8_t>* into) const {
    const std::int64_t limit = std::min(file_size_, frame.position + static_cast<std::int64_t>(most_bytes()));
    const std::int64_t continues_at = frame.first + frame.num_samples;
    std::uint16_t crc = 0;
    for (std::int64_t position = frame.position; position < limit;) {
      const auto bytes = bytes_at_(position, kPiece);
      const bool is_last = position + static_cast<std::int64_t>(bytes.size()) >= file_size_;
      if (bytes.empty() || (bytes.size() < kPiece && !is_last)) {
        return false;  // the file has changed
      }
      // A header at the end of the piece is looked at in the next one.
      const std::size_t num_looked_at = is_last ? bytes.size() : bytes.size() - kLongestFlacHeader;
      std::size_t done = 0;
      for (std::size_t at = next_sync(bytes, position == frame.position ? 1 : 0, num_looked_at); at < num_looked_at;
           at = next_sync(bytes, at + 1, num_looked_at)) {
        const auto header = parse_header(stream_, bytes.subspan(at));
        if (!header || header->first != continues_at) {
          continue;
        }
        crc = flac_crc16(crc, bytes.subspan(done, at - done));
        append(into, bytes.subspan(done, at - done));
        done = at;
        if (crc == 0) {
          frame.num_bytes = static_cast<std::size_t>(position - frame.position) + at;
          next = FlacFrame{position + static_cast<std::int64_t>(at), 0, header->first, header->num_samples};
          return is_allowed(frame, *next);
        }
      }
      crc = flac_crc16(crc, bytes.subspan(done, num_looked_at - done));
      append(into, bytes.subspan(done, num_looked_at - done));
      position += static_cast<std::int64_t>(num_looked_at);
      if (is_last) {
        frame.num_bytes = static_cast<std::size_t>(position - frame.position);
        next = std::nullopt;
        return crc == 0;
      }
    }
    return false;
  }

  static void append(std::vector<std::uint8_t>* into, std::span<const std::uint8_t> bytes) {
    if (into != nullptr) {
      into->insert(into->end(), bytes.begin(), bytes.end());
    }
  }

  // Only the last frame may be shorter than the others, if they are counted.
  bool is_allowed(const FlacFrame& frame, const FlacFrame& next) const noexcept {
    return frame.num_samples > 0 && next.first > frame.first &&
           (stream_.is_variable || frame.num_samples == stream_.num_samples_of_block);
  }

  std::size_t next_sync(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t end) const noexcept {
    const std::uint8_t second = stream_.is_variable ? 0xf9 : 0xf8;
    while (from < end) {
      const void* found = std::memchr(bytes.data() + from, 0xff, end - from);
      if (found == nullptr) {
        return end;
      }
      from = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data());
      if (from + 1 < bytes.size() && bytes[from + 1] == second) {
        return from;
      }
      ++from;
    }
    return end;
  }

  // The first frame from that position on whose first sample is between two numbers. None also if that takes too long.
  std::optional<FlacFrame> find_from(std::int64_t position, std::int64_t end, std::int64_t after, std::int64_t before) {
    end = std::min(end, position + 2 * static_cast<std::int64_t>(most_bytes()));
    while (position < end && num_measured_ < kMostMeasured) {
      const auto bytes = bytes_at_(position, kPiece);
      const std::size_t num_looked_at = bytes.size() < kPiece ? bytes.size() : bytes.size() - kLongestFlacHeader;
      if (num_looked_at == 0) {
        break;
      }
      const auto stop = static_cast<std::size_t>(std::min<std::int64_t>(end - position, static_cast<std::int64_t>(num_looked_at)));
      std::size_t at = next_sync(bytes, 0, stop);
      std::optional<Header> header;
      for (; at < stop; at = next_sync(bytes, at + 1, stop)) {
        header = parse_header(stream_, bytes.subspan(at));
        if (header && header->first > after && header->first < before) {
          break;
        }
      }
      position += static_cast<std::int64_t>(at);
      if (at < stop) {
        FlacFrame frame{position, 0, header->first, header->num_samples};
        std::optional<FlacFrame> next;
        ++num_measured_;
        if (!checks_probes_ || measure(frame, next, nullptr)) {
          return frame;
        }
        ++position;
      }
    }
    return std::nullopt;
  }

  // A frame that begins at or before that sample, mostly not long before it.
  std::optional<FlacFrame> find_before(std::int64_t sample) {
    std::optional<FlacFrame> low = frame_at(stream_.first);
    std::int64_t high = file_size_;
    std::int64_t samples_before_high = stream_.num_samples;
    const std::int64_t before = stream_.num_samples > 0 ? stream_.num_samples : std::numeric_limits<std::int64_t>::max();
    constexpr int kMostSteps = 64;
    for (int step = 0; step < kMostSteps && low; ++step) {
      const std::int64_t size = high - low->position;
      if (sample - low->first <= 2 * std::int64_t{stream_.num_samples_of_block} ||
          size <= static_cast<std::int64_t>(most_bytes())) {
        break;
      }
      // Where the frame before it is if all have the same size; now and then in the middle, if they are not at all.
      double share = 0.5;
      if (samples_before_high > low->first && step % 4 != 3) {
        share = static_cast<double>(sample - stream_.num_samples_of_block - low->first) /
                static_cast<double>(samples_before_high - low->first);
      }
      const auto ahead = static_cast<std::int64_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(size));
      const std::int64_t guess = low->position + std::clamp<std::int64_t>(ahead, 1, size - 1);
      const auto found = find_from(guess, high, low->first, before);
      if (found && found->first <= sample) {
        low = found;
        continue;
      }
      high = guess;
      if (found) {
        samples_before_high = found->first;
      }
    }
    return low;
  }

  static constexpr int kMostMeasured = 64;

  const FlacStream& stream_;
  std::int64_t file_size_;
  const BytesAt& bytes_at_;
  bool checks_probes_;
  int num_measured_ = 0;
};

}  // namespace

std::optional<FlacStream> read_flac_stream(const BytesAt& bytes_at) {
  constexpr std::size_t kMarker = 4;
  constexpr std::size_t kBlockHeader = 4;
  constexpr std::size_t kStreamInfo = 34;
  std::int64_t position = skip_id3(bytes_at);
  const auto start = bytes_at(position, kMarker + kBlockHeader + kStreamInfo);
  if (start.size() < kMarker + kBlockHeader + kStreamInfo || std::memcmp(start.data(), "fLaC", kMarker) != 0 ||
      (start[kMarker] & 0x7f) != 0 || big_endian(start.subspan(kMarker + 1, 3)) != kStreamInfo) {
    return std::nullopt;
  }
  const auto info = start.subspan(kMarker + kBlockHeader);
  const auto least = static_cast<int>(big_endian(info.first(2)));
  const std::uint64_t facts = big_endian(info.subspan(10, 8));
  FlacStream stream;
  stream.num_samples_of_block = static_cast<int>(big_endian(info.subspan(2, 2)));
  stream.sample_rate = static_cast<int>(facts >> 44);
  stream.num_channels = static_cast<int>(facts >> 41 & 7) + 1;
  stream.num_bits = static_cast<int>(facts >> 36 & 0x1f) + 1;
  stream.num_samples = static_cast<std::int64_t>(facts & 0xfffffffff);
  position += kMarker;
  for (bool is_last = false; !is_last;) {
    const auto block = bytes_at(position, kBlockHeader);
    if (block.size() < kBlockHeader) {
      return std::nullopt;
    }
    is_last = (block[0] & 0x80) != 0;
    position += static_cast<std::int64_t>(kBlockHeader + big_endian(block.subspan(1, 3)));
  }
  stream.first = position;
  const auto frame = bytes_at(position, kLongestFlacHeader);
  stream.is_variable = frame.size() > 1 && (frame[1] & 1) != 0;
  const auto header = parse_header(stream, frame);
  if (!header || header->first != 0 || (!stream.is_variable && least != stream.num_samples_of_block)) {
    return std::nullopt;
  }
  return stream;
}

std::optional<FlacFrames> find_flac_frames(const FlacStream& stream, std::int64_t file_size, std::int64_t first,
                                           std::int64_t end, const BytesAt& bytes_at) {
  // What looks like a header seldom is none, and then what begins with it is no frame.
  auto found = Frames(stream, file_size, bytes_at, false).find(first, end);
  return found ? std::move(found) : Frames(stream, file_size, bytes_at, true).find(first, end);
}

}  // namespace spdl
