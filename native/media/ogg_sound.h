// The sound of an Ogg file: one stream of Vorbis, Opus or FLAC, or several of them one behind the other (a chain; RFC 3533,
// section 4).
//
// libav counts samples that the first packet of Vorbis does not give, and the granule positions of each link of a chain for
// themselves, so where a sample is and where the sound ends is found from the pages here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "av/owners.h"
#include "media/input.h"
#include "media/ogg_pages.h"

namespace spdl {

// What has to be known of a stream.
struct OggSound {
  OggPackets::DurationOf duration_of;
  std::int64_t pts_of_zero = 0;  // time stamp of granule position 0
  std::size_t num_headers = 0;   // packets in front
  bool has_short_end = false;    // durations of packets are without samples behind the end of the stream, as libav has them
  bool is_first_silent = false;  // nothing is decoded from the first packet
};

// None for other codecs, and for parameters that are not valid.
std::optional<OggSound> ogg_sound_of(const AVCodecParameters& parameters);

av::PacketPtr make_ogg_packet(const OggPacket& from, const OggSound& sound, int stream);

// One of the streams of a chain.
struct OggLink {
  std::int64_t begin = 0;  // positions in the file
  std::int64_t end = 0;
  std::int64_t first = 0;         // granule position of the first sample
  std::int64_t last_granule = 0;  // where the sound ends
  std::int64_t num_samples = 0;
  std::vector<std::uint8_t> extradata;  // of its codec
};

struct OggChain {
  std::vector<OggLink> links;
  bool is_whole = true;  // none of them was damaged and left out, with those behind it

  bool is_single() const noexcept { return is_whole && links.size() == 1; }
  std::int64_t num_samples() const noexcept;
};

// None if the input is no such file, is not valid, or has other streams beside: libav then reads it. Afterwards, seek or reopen
// the input. Throws Error: kDemux for links with other codecs, rates or channels than the first; kTimeout; Cancelled.
std::optional<OggChain> find_ogg_chain(Input& input, int stream);

struct OggPacketList {
  std::vector<av::PacketPtr> packets;
  bool is_whole = true;  // no page was damaged
};

// All packets, with time stamps that go on from link to link. The first one of each further link has the parameters of its
// codec as side data (AV_PKT_DATA_NEW_EXTRADATA), where a new decoder has to begin.
OggPacketList read_ogg_chain(Input& input, int stream, const OggChain& chain);

}  // namespace spdl
