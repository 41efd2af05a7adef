// Packets of several streams, chunk by chunk, in the order of the container.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "av/owners.h"
#include "media/codec.h"
#include "media/input.h"
#include "media/ogg_sound.h"
#include "media/pts_filler.h"

namespace spdl {

// Reads from the input's current position. All calls must use the same input, and nothing else may use it in between.
// One thread per object.
class ChunkReader {
 public:
  // `codecs`: of the streams to read, by index. `leader`: the stream whose key frames end a chunk. `ogg`: what reads the
  // packets of the only stream, instead of the input.
  ChunkReader(const Input& input, std::map<int, CodecPtr> codecs, int leader,
              std::unique_ptr<OggChainReader> ogg = nullptr);

  // The next packets of each stream, with their times: until one has `num_packets`, or until the end of a decodable group
  // after `duration` seconds. Empty at the end of the data. Throws Error (kDemux); afterwards it reads nothing more.
  std::map<int, std::vector<av::PacketPtr>> read(Input& input, std::optional<double> duration,
                                                 std::optional<int> num_packets);

  // Whether all data was read, or reading has failed.
  bool is_at_end() const noexcept { return is_at_end_; }
  int leader() const noexcept { return leader_; }
  std::set<int> streams() const;

 private:
  // Null at the end.
  av::PacketPtr next(Input& input);
  bool read(Input& input, av::PacketPtr& packet);

  std::map<int, CodecPtr> codecs_;
  std::map<int, PtsFiller> fillers_;  // one for each stream; they refer to the codecs
  int leader_;
  std::unique_ptr<OggChainReader> ogg_;
  av::PacketPtr held_;  // the first packet of the next chunk
  bool is_at_end_ = false;
  bool is_drained_ = false;  // the container has no more packets
};

}  // namespace spdl
