// Decoding as users ask for it: with a window, a filter, a limit on the number of frames, all at once or by and by.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "media/decoder.h"
#include "media/frames.h"
#include "media/packets.h"

namespace spdl {

// Decodes all packets. `filter`: a description of one input and one output; none: frames in the decoder's own format.
// Throws Error: kDecode, kFilter, kNoCodec, kStreamNotFound.
Frames decode_packets(Packets packets, const std::optional<std::string>& filter, const DecodeConfig& config,
                      std::optional<int> num_frames);

// Frames of video by their position inside the window, ascending: decodes only the groups of pictures that hold them.
std::vector<Frames> sample_video(Packets packets, const std::vector<std::size_t>& indices,
                                 const std::optional<std::string>& filter, const DecodeConfig& config);

// Decoding by and by. The sum of what comes out equals `decode_packets` of the sum of what went in. One thread per object.
class StreamDecoder {
 public:
  StreamDecoder(CodecPtr codec, std::optional<std::string> filter, DecodeConfig config);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;

  // Frames that are ready after these packets, as one Frames of all of them (possibly none).
  Frames decode(Packets packets);
  // The rest; a second call gives none.
  Frames flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spdl
