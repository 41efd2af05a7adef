// Finds a time in an FLV file: the tag of a stream from which to read.
//
// A tag has a header with its size and time stamp, and is followed by its total size as a back pointer (Adobe Flash Video File
// Format Specification 10.1, annex E.3 and E.4). So a tag can be recognised anywhere in the file, and a time can be found by
// bisection. The index of key frames that some files have in their metadata is not needed, so it cannot mislead.

#pragma once

#include <cstdint>
#include <optional>

#include "media/block_reader.h"

namespace spdl {

enum class FlvStream : std::uint8_t { kAudio = 8, kVideo = 9 };  // the types of their tags

struct FlvPlace {
  std::int64_t position = 0;  // of the tag
  std::int64_t dts = 0;       // its time stamp, in milliseconds
};

// The last tag of the stream, in a file of that size, whose time stamp is not after `dts`; of a video, the last such key frame.
// None if there is no such tag behind the first one, or if the file's structure is not valid.
std::optional<FlvPlace> find_flv_tag(FlvStream stream, std::int64_t dts, std::int64_t file_size, const BytesAt& bytes_at);

}  // namespace spdl
