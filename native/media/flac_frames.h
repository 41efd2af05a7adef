// Where in a FLAC file the frames are that hold a span of samples, and their bytes.
//
// A frame does not say how long it is, and few files have a table for seeking. But its header tells which samples it
// has, and ends with a checksum, as the frame does (RFC 9639, section 9). So a frame is found by bisection, and ends
// where another header stands that continues it, and where the checksum of all bytes before that header is right.
// Whatever does not fit is not found, so that the caller reads the file in another way: damage, samples that are missing
// or are there twice, anything else behind the last frame.

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

// None if that is no FLAC file, or has no frame whose number is 0 where the first one should be. ID3 tags in front of it are passed
// over.
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
