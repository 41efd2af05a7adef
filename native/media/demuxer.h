// From an opened container to packets.
//
// Owns the Input. Each demux_* seeks, so they can be called in any order, again and again. One thread per object.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "media/input.h"
#include "media/packets.h"

namespace spdl {

class Demuxer {
 public:
  Demuxer(const MediaSource& source, std::string name, DemuxConfig config);

  // The packets of the best stream of that type; with a window, those that decoding it needs.
  // Throws Error: kStreamNotFound, kDemux (damage, unless errors are tolerated), kFilter (bit stream filter).
  Packets demux(MediaType type, std::optional<TimeWindow> window, const std::optional<std::string>& bsf);

  bool has(MediaType type) const;
  int stream_index(MediaType type) const;   // throws Error(kStreamNotFound)
  CodecPtr codec(MediaType type) const;     // throws Error(kStreamNotFound)
  int num_streams() const noexcept;
  MediaType stream_type(int index) const;   // throws Error(kStreamNotFound) for what is neither audio nor video
  const std::string& name() const noexcept { return input_.name(); }

  // Reads on from where the last call stopped (`rewind` first for the beginning) until `num_packets` of a stream, or
  // `duration` seconds up to the end of a decodable group, are there. Empty at the end of the data.
  void rewind();
  std::map<int, Packets> read_some(const std::set<int>& streams, std::optional<double> duration,
                                   std::optional<int> num_packets);

 private:
  Input input_;
  DemuxConfig config_;
  av::PacketPtr held_;  // read ahead by read_some
};

}  // namespace spdl
