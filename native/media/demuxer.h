// Reads packets from an opened container.
//
// Owns the Input. Each call of `demux` seeks, so the calls may come in any order. One thread per object.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "media/chunk_reader.h"
#include "media/edit_list.h"
#include "media/facts.h"
#include "media/input.h"
#include "media/ogg_sound.h"
#include "media/packets.h"
#include "media/picture_index.h"
#include "media/seeker.h"
#include "media/window.h"

namespace spdl {

class Demuxer {
 public:
  Demuxer(MediaSource source, std::string name, DemuxConfig config);

  // The packets of the best stream of that type: all, or those that are needed to decode the window.
  // `index`: another stream of that type. `use`: of the samples of a window, whose times `clock` counts. Throws Error: kStreamNotFound, kDemux (damage, unless errors are tolerated),
  // kFilter (bit stream filter).
  Packets demux(MediaType type, std::optional<TimeWindow> window, const std::optional<std::string>& bsf,
                std::optional<int> index = std::nullopt, SoundUse use = SoundUse::kFilter,
                SoundClock clock = SoundClock::kStream);

  bool has(MediaType type) const;
  int stream_index(MediaType type) const;   // throws Error(kStreamNotFound)
  // Start and end of the stream in seconds, according to the container; none if it does not state them. Throws
  // Error(kStreamNotFound).
  // Throws Error(kDemux) for an edit list that is not supported.
  std::optional<TimeWindow> extent(MediaType type, std::optional<int> index = std::nullopt);
  CodecPtr codec(MediaType type);          // throws Error(kStreamNotFound); complete
  CodecPtr codec(int index);               // of a stream of audio or video; throws Error(kStreamNotFound); complete
  int num_streams() const noexcept;
  MediaType stream_type(int index) const;   // throws Error(kStreamNotFound) for what is neither audio nor video
  // The best stream of that type, or the one with that index. Throws Error(kStreamNotFound), also for one of another type.
  int choose(MediaType type, std::optional<int> index) const;
  // Where the sound of a stream of audio is. May read from the beginning. Throws Error: kDemux.
  const SoundBounds& sound_bounds(int index);
  // The number of samples that decoding all of a stream of audio gives, at the rate of its parameters; none if only decoding
  // tells. May read all packets. Throws Error: kDemux.
  std::optional<std::int64_t> num_samples(int index);
  // That number as far as the header tells.
  std::optional<std::int64_t> declared_samples(int index);
  AVRational time_base(int index) const noexcept { return stream(index).time_base; }
  // Samples per second of a stream of audio according to the container; 0 if it does not say.
  int sample_rate(int index) const noexcept { return stream(index).codecpar->sample_rate; }
  // Everything the container says about itself. May open the source a second time.
  ContainerFacts facts();
  // How to turn pictures of the stream for display.
  Orientation orientation(int index) const { return display_orientation(stream(index)); }
  // Of a stream of pictures; see picture_index.h.
  std::optional<PictureGrid> picture_grid(int index) {
    return edited(index) != nullptr ? std::nullopt : spdl::picture_grid(stream(index));
  }
  const std::string& name() const noexcept { return input_.name(); }

  // Incremental reading, of at least one stream. `start_reading` seeks to the beginning and returns the token for `read_some`.
  // Any other use of the demuxer ends the reading. Throws Error(kStreamNotFound).
  int start_reading(const std::set<int>& streams);
  // The next packets of each stream, without a codec: until one has `num_packets`, or until the end of a decodable group after
  // `duration` seconds. Empty at the end of the data. Throws Error: kDemux, kMedia (the reading was ended, see above).
  std::map<int, Packets> read_some(int round, std::optional<double> duration, std::optional<int> num_packets);

 private:
  Demuxer(Input input, int edited_stream, EditList edits);
  // The demuxer of a stream of pictures whose edit list libav does not follow in all; null for all others. Throws
  // Error(kDemux) for a list that is not supported.
  Demuxer* edited(int index);
  TimeWindow edited_extent() const;
  // As far as the input knows it.
  static CodecPtr codec_of(const Input& input, MediaType type, int index);
  // Throws Error(kDemux) for a stream that is one tile of a picture.
  void expect_whole_picture(int index) const;
  AVStream& stream(int index) const noexcept { return *input_.context().streams[index]; }
  Packets new_packets(MediaType type, int index) const;
  CodecPtr codec(MediaType type, int index);
  // Makes `read` skip all other streams.
  void select(const std::set<int>& streams);
  void demux_picture(Packets& into);
  void demux_all(Packets& into);
  bool read_ogg(Packets& into);
  void expect_whole_ogg();
  void report_ogg(OggState state);
  OggState check_read_pages(const Packets& from, TimeWindow window);
  void demux_window(Packets& into, SoundUse use);
  void demux_sound(Packets& into, TimeWindow window, SoundUse use);
  void demux_sound_from_start(Packets& into, TimeWindow window);
  // Seeks to the target, then ever further back, then to the start, until `try_from(from_start)` is true.
  void seek_and_try(int index, double target, const std::function<bool(bool)>& try_from);
  // Reads packets of the selected stream until there are no more, or until `offer` says that there are enough; false then.
  bool read_until(Packets& into, bool from_start, const std::function<bool(av::PacketPtr)>& offer);
  // Reads packets of the selected stream until the collector has enough; false if they began too late for it.
  template <class Collector>
  bool collect(Collector& collector, Packets& into, bool from_start) {
    read_until(into, from_start, [&](av::PacketPtr packet) { return collector.offer(std::move(packet)); });
    if (collector.began_too_late()) {
      return false;
    }
    into.packets = collector.finish();
    return true;
  }

  void go_to_start();
  void stop_reading() noexcept;

  double start_of(const AVStream& from) const noexcept;  // in seconds

  Input input_;
  Seeker seeker_;
  std::optional<OggChain> ogg_;        // found with the bounds of its sound
  std::optional<OggState> ogg_state_;  // once it was looked at
  std::map<int, SoundBounds> sounds_;  // of streams that were asked for
  std::map<int, std::optional<std::int64_t>> num_samples_;
  std::vector<std::int64_t> starts_;  // first time stamp of each stream in its time base; 0 if unknown
  // Complete, where `input_` has not been examined; and of which stream.
  CodecPtr full_codec_;
  int full_codec_index_ = -1;
  // The only stream that is read, if not negative, and how it is presented.
  int edited_stream_ = -1;
  std::optional<EditList> edits_;
  std::map<int, std::unique_ptr<Demuxer>> edited_;  // of streams that were asked for; null for most
  std::vector<Demuxer*> reading_edited_;            // of these
  // Incremental reading, and how often one was started or ended.
  std::optional<ChunkReader> reading_;
  int round_ = 0;
  std::set<int> started_;            // streams whose first packet was read
  bool is_at_end_ = false;           // the last reading of packets came to the end
  std::int64_t last_position_ = -1;  // in the file, of the last packet that it read
};

}  // namespace spdl
