// Packets of a WAV file whose samples are PCM, floats, A-law or µ-law, read by our own parser.
//
// FFmpeg takes the number of valid bits for the size of a sample (24 bits in 32 decode to noise), reads RIFX as
// little-endian, and cuts packets differently in each version. Its demuxer only reads what the file says about itself.
// One thread per object.

#pragma once

extern "C" {
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wav/wav.h"

namespace spdl {

class WavPackets {
 public:
  // None for other codings, for what does not fit together, and if no header is found: `start` are the first bytes, and
  // further ones are read only if `io` can seek; it then stands at the start again.
  static std::optional<WavPackets> find(std::span<const std::uint8_t> start, AVIOContext& io);

  // Whether FFmpeg may not open the header: of RIFX, or of RF64 without a size.
  bool needs_plain_header() const noexcept { return header_.is_big_endian || (header_.is_64 && !header_.stated_size); }
  // A RIFF header with the same facts, and no samples.
  std::vector<std::uint8_t> plain_header() const;
  // Sets what FFmpeg gets wrong, and what it would find by decoding.
  void complete(AVFormatContext& context) const noexcept;
  // Whether the stream still has the codec that `complete` has set, and not one that FFmpeg found in the samples.
  bool is_codec_of(const AVFormatContext& context) const noexcept;

  // As av_read_frame does, but the last packet ends with a whole sample.
  int read(AVIOContext& io, AVPacket& packet);
  // To a sample; behind the end if there are fewer.
  void seek(std::int64_t sample) noexcept;
  // The number of bytes that the file states, if the data ended before; none if it has not.
  std::optional<std::uint64_t> missing_end() const noexcept;

 private:
  explicit WavPackets(const WavHeader& header) : header_(header) {}

  std::uint64_t num_samples() const noexcept { return header_.data_size / header_.frame_bytes(); }

  WavHeader header_;
  std::uint64_t position_ = 0;      // in the data
  bool has_ended_ = false;          // before data_size
};

}  // namespace spdl
