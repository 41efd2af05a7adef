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
#include "media/block_reader.h"
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

// Reads the packets one by one, with time stamps that go on from link to link. The first one of each further link has the
// parameters of its codec as side data (AV_PKT_DATA_NEW_EXTRADATA), where a new decoder has to begin. The input must outlive
// the object. One thread per object.
class OggChainReader {
 public:
  OggChainReader(Input& input, int stream, OggChain chain);
  OggChainReader(const OggChainReader&) = delete;
  OggChainReader& operator=(const OggChainReader&) = delete;

  // Null at the end, or if a page is damaged.
  av::PacketPtr next();
  // Whether no page was damaged so far.
  bool is_whole() const noexcept { return is_whole_; }

 private:
  bool begin_link();

  Input& input_;
  int stream_;
  OggChain chain_;
  BlockReader reader_;
  BytesAt bytes_at_;
  std::size_t link_ = 0;
  std::int64_t start_;  // of the link, in samples of the whole
  std::optional<OggSound> sound_;
  std::optional<OggPackets> packets_;  // of the link
  bool begins_ = false;                // the next packet is the first one of a further link
  bool is_whole_;
};

// How the pages of an Ogg file are, from the one that begins at `first` to the one that begins at `last`; whole if it is none, or
// cannot be read at any place. Afterwards, seek or reopen the input.
OggState check_ogg(Input& input, std::int64_t first, std::int64_t last);

}  // namespace spdl
