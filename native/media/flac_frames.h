// Finds the frames of a FLAC file that hold a span of samples, and their bytes.
//
// A frame does not state its length, and few files have a seek table. But its header says which samples it has, and
// both the header and the frame end with a checksum (RFC 9639, section 9). So a frame is found by bisection. It ends at
// a header that continues its samples, if the checksum of all bytes before that header is right. If anything does not
// fit, nothing is found and the caller reads the file in another way: damage, missing or repeated samples, other data
// behind the last frame.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "media/block_reader.h"

namespace spdl {

// What a file says about all of its frames.
struct FlacStream {
  std::int64_t first = 0;  // position of the first frame
  int num_samples_of_block = 0;  // of a frame, at most
  int sample_rate = 0;
  int num_channels = 0;
  int num_bits = 0;               // of a sample
  std::int64_t num_samples = 0;   // 0 if it does not say
  bool is_variable = false;       // frames may have any size, and are counted in samples
};

// None if this is not a FLAC file, or has no frame with number 0 where the first one should be. Skips ID3 tags before
// it.
std::optional<FlacStream> read_flac_stream(const BytesAt& bytes_at);

struct FlacFrame {
  std::int64_t position = 0;
  std::size_t num_bytes = 0;
  std::int64_t first = 0;  // number of its first sample
  int num_samples = 0;
};

struct FlacFrames {
  std::vector<FlacFrame> frames;    // without gaps
  std::vector<std::uint8_t> bytes;  // of all of them
};

// The frames that hold samples from `first` to before `end`, as far as there are any, in a file of that size. None if
// some cannot be found.
std::optional<FlacFrames> find_flac_frames(const FlacStream& stream, std::int64_t file_size, std::int64_t first,
                                           std::int64_t end, const BytesAt& bytes_at);

}  // namespace spdl
