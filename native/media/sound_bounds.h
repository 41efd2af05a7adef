// Where the sound of a stream begins and ends.
//
// Encoders put samples before the first one of the sound (delay) and fill up the last packet (padding). What containers say of both
// is brought into one form here, so that it does not depend on the version of libav what is left out: the delay is side data of the
// first packet, which decoders apply; the end is a number of samples.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "av/owners.h"

namespace spdl {

class Input;

// What the times of a window are counted from.
enum class SoundClock {
  kStream,       // the container's own clock
  kFirstSample,  // the first sample of the sound
};

struct SoundBounds {
  // Of the stream.
  bool is_timed = false;       // samples are where the time stamps of their packets say; else each follows the one before
  std::int64_t first_pts = 0;  // of the first packet of the stream, in its time base
  std::int64_t delay = 0;      // number of decoded samples before the sound
  int rate = 0;                // of these numbers, in samples per second; 0 if unknown
  std::optional<std::int64_t> length;  // of the sound, in the time base; none if decoding tells
  bool is_counted = false;             // it ends behind that number of samples, whatever the times of its packets are
  // Of packets that were read.
  bool begins_stream = true;      // they begin with the stream's first one
  std::int64_t first_index = 0;   // otherwise, number of samples decoded from those before them
};

// When the sound begins: a position of the container's clock, in samples of that rate. A container's time stamps may be rounded; if
// the delay alone is before 0, the sound begins at 0.
std::int64_t start_position(const SoundBounds& bounds, AVRational time_base, int rate) noexcept;

// Of a stream of audio, before anything was read from the input or after. Throws as Input::peek.
SoundBounds read_sound_bounds(Input& input, int stream, std::int64_t start);

// Where the sound ends, now that all packets were read: for fragmented files, whose header does not say.
void complete_sound_bounds(const Input& input, int stream, SoundBounds& bounds);

// The number of samples that decoding all of a stream gives, as far as its header tells.
std::optional<std::int64_t> declared_samples(const Input& input, int stream, const SoundBounds& bounds);

// That number, from all of its packets.
std::optional<std::int64_t> count_samples(const std::vector<av::PacketPtr>& packets, const AVStream& stream,
                                          const SoundBounds& bounds);

// Has the decoder leave out the delay. `first`: the first packet of the stream.
void mark_delay(AVPacket& first, const AVCodecParameters& parameters, const SoundBounds& bounds);

// The number of samples that are decoded from a packet, at the rate of the parameters; none if only decoding tells.
std::optional<int> num_samples_in(const AVPacket& packet, const AVCodecParameters& parameters);

// The same without padding that the container has marked.
std::optional<int> num_kept_samples_in(const AVPacket& packet, const AVCodecParameters& parameters);
// Whether looking at all packets takes less time than decoding a second, so that it is better than to trust time stamps.
bool is_cheap_to_count(const Input& input) noexcept;

// The number of samples decoded from all packets of the stream before these, without gaps; none if the packets do not tell.
std::optional<std::int64_t> index_of(const std::vector<av::PacketPtr>& packets, const Input& input, int stream,
                                     const SoundBounds& bounds);

}  // namespace spdl
