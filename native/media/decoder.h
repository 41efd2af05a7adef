// From packets to frames.
//
// A decoder context of libav with what users may ask of it; frames come out in the decoder's own format, in display
// order. Filtering and windows are in decode.h. One thread per object.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/options.h"
#include "av/owners.h"
#include "media/codec.h"

namespace spdl {

struct DecodeConfig {
  std::optional<std::string> decoder;  // by name, instead of the codec's default one
  av::Options options;                 // "threads" too; one thread without it
  bool tolerate_errors = false;
};

class RawDecoder {
 public:
  // Throws Error(kDecode): unknown decoder or option, parameters that it refuses.
  RawDecoder(const Codec& codec, const DecodeConfig& config, std::string source);

  // Gives the packet (null: the end) to the decoder and calls `take(FramePtr) -> bool` for each frame that comes out,
  // until it returns false. Damaged data throws Error(kDecode) with stream and time, or is counted.
  template <class Take>
  bool decode(const AVPacket* packet, Take&& take);

  int num_errors() const noexcept { return num_errors_; }
  AVCodecContext& context() const noexcept { return *context_; }

 private:
  av::CodecContextPtr context_;
  av::FramePtr spare_;
  std::string source_;
  bool tolerates_ = false;
  int num_errors_ = 0;
};

}  // namespace spdl
