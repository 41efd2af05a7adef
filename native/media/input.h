// An opened container: a file or URL by name, data in memory that is read in place, or a source that other code reads.
//
// Owns libav's context and its I/O. Data in memory belongs to the caller and must outlive the Input. Blocking calls end at the
// timeout, and when the caller is interrupted (CancellationScope). One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "av/log.h"
#include "av/options.h"
#include "av/owners.h"
#include "base/error.h"
#include "media/byte_ranges.h"
#include "media/edit_list.h"
#include "media/wav_packets.h"
#include "media/webp_packets.h"

namespace spdl {

struct DemuxConfig {
  std::optional<std::string> format;  // for data without a header
  av::Options format_options;
  int buffer_size = 8096;  // bytes; for data in memory
  bool tolerate_errors = false;
  // With which protocols a container may open other sources. By default, with those of its own source if `format` is given, else
  // with none.
  std::optional<std::vector<std::string>> protocols;
  std::optional<double> timeout;  // seconds; for opening, and for reading each packet
  std::string file_name;          // of data in memory, for formats that are recognised by the name
};

// A path or URL, data that the caller keeps alive and unchanged, or a source that other code reads.
struct MediaSource {
  MediaSource(std::string path) : from(std::move(path)) {}
  MediaSource(std::span<const std::uint8_t> data) : from(data) {}
  MediaSource(std::shared_ptr<ByteRanges> ranges) : from(std::move(ranges)) {}
  // The source of a picture.
  MediaSource(std::variant<std::string, std::span<const std::uint8_t>> source) {
    std::visit([this](auto& held) { from = std::move(held); }, source);
  }

  std::variant<std::string, std::span<const std::uint8_t>, std::shared_ptr<ByteRanges>> from;
};

class Input {
 public:
  // Throws Error: kSourceNotFound, kOpen (not media), kDemux (unknown format or option), kTimeout; Cancelled. Messages call the
  // source `name`.
  Input(MediaSource source, std::string name, DemuxConfig config);
  ~Input();
  Input(Input&&) noexcept;

  AVFormatContext& context() const noexcept { return *context_; }
  const std::string& name() const noexcept { return name_; }

  // The next packet of any stream that is not discarded; false at the end. Throws Error(kDemux) for damage: a read error, a packet
  // that the container marks as corrupt, data that ends before the container says so; kTimeout; Cancelled.
  // If errors are tolerated, they are counted instead. Reading then continues with the damaged packet in MPEG transport streams,
  // which are made for losses, ends after the whole samples of a packet of sound that is cut off, and ends before it in all
  // other formats.
  bool read(AVPacket& packet);
  // Throws Error(kDemux) with that reason, or counts it if errors are tolerated.
  void report(const std::string& reason);
  // The number of errors tolerated since the last call.
  int take_num_errors() noexcept { return std::exchange(num_errors_, 0); }
  // Whether nothing has been read since the input was opened, so the next packet is the first one.
  bool is_at_start() const noexcept { return is_at_start_; }
  // After `read_at`, by a caller who has brought the input back to where it was.
  void set_at_start(bool is_at_start) noexcept { is_at_start_ = is_at_start; }

  // The packet that comes `index` packets after the next one, which `read` still gives; null at the end. Valid until the next
  // call. Throws as `read`, but for errors that are tolerated.
  const AVPacket* peek(std::size_t index);
  // libav's own seek, to the best place from `min_ticks` to `ticks`; `flags` are those of avformat_seek_file. False if it
  // failed: before packets are read again, the input must be opened anew. The caller has to check where it lands.
  bool seek(int stream, std::int64_t min_ticks, std::int64_t ticks, int flags);
  // Reads bytes of the source, fewer at its end and where reading fails. Seek or reopen the input before reading
  // packets again. Throws Error(kTimeout); Cancelled.
  std::size_t read_at(std::int64_t position, std::span<std::uint8_t> into);
  // Whether the container has presentation times, and not only decoding times or none.
  bool knows_display() const noexcept;
  // Whether no picture is displayed before its decoding time stamp. FLV has encoders that write such pictures.
  bool has_reliable_dts() const noexcept;
  // The frame rate in the options, for streams without times.
  std::optional<AVRational> asked_frame_rate() const;
  // Reopens the source.
  void reopen();
  // Whether libav has examined the streams. If not, the codec parameters are those of the header.
  bool has_all_parameters() const noexcept { return has_all_parameters_; }
  // The same source opened once more, with its streams examined.
  Input with_all_parameters() const;
  // The same source opened once more, with a stream of pictures that is presented as an edit list says, whatever libav makes
  // of it. Its other streams are not edited.
  Input with_edits(int stream, EditList edits) const;
  // A track of an MP4 file by its identifier, as the bytes tell that were read to open it; none if others are needed.
  std::optional<Mp4Track> known_track(int id) const;
  // Whether edit lists are to be followed, in all.
  bool follows_edits() const;

 private:
  // State that libav's context points to, so it must not move.
  struct IoState;

  Input(MediaSource source, std::string name, DemuxConfig config, bool find_all_parameters);

  void open(bool find_all_parameters);
  std::string open_source(const AVInputFormat* format, av::Dictionary& options_of_url);
  // Throws the error that ended reading, which libav does not report: Error; Cancelled.
  void throw_if_failed(const char* action) const;
  void fail_unless_opened(int code, const av::LogCapture& said) const;
  void fail_if_empty() const;

  MediaSource source_;
  std::string name_;
  DemuxConfig config_;
  void keep_tracks();

  std::map<int, Mp4Track> known_tracks_;
  std::optional<EditList> edits_;
  int edited_stream_ = -1;
  std::unique_ptr<IoState> io_state_;  // must outlive the context
  av::InputPtr context_;
  void expect_no_failure() const;
  bool read_next(AVPacket& packet);
  bool read_marked(AVPacket& packet);
  void look_at_end();
  bool cut_to_sound(AVPacket& packet);
  void settle_damage(AVPacket& packet);
  bool is_useful_part();
  bool is_odd_end(int code, std::int64_t position) const;
  bool is_before_joint(const AVPacket& damaged);
  void drop_peeked() noexcept;
  void expect_all_data() const;
  void expect_whole_matroska(std::int64_t position);
  Error damaged_packet() const;

  std::vector<std::uint8_t> probed() const;
  void find_wav(std::span<const std::uint8_t> start);
  bool has_plain_header() const noexcept;
  bool open_format(const std::string& url, const AVInputFormat& format, av::Dictionary& options,
                   const av::LogCapture& said);

  std::optional<WebpPackets> webp_;             // reads the packets of an animated WebP
  std::optional<WavPackets> wav_;               // reads the packets of a WAV file without a compressed coding
  bool has_plain_header_ = false;               // of it, which libav would not open
  std::deque<av::PacketPtr> ahead_;             // packets that were peeked at
  bool is_ended_ = false;                       // reading stopped at an error that was tolerated
  int num_errors_ = 0;
  std::optional<std::uint64_t> declared_size_;  // of the whole file in bytes, according to its header
  // Of a stream of sound alone; none of anything else.
  struct SoundEnd {
    bool is_raw = false;               // may have tags behind it
    bool is_short = false;             // its last packet is short by nature
    bool is_headerless = false;        // samples alone
    bool is_at_declared_size = false;  // what lies behind that is none of it
    int block = 1;                     // in bytes: what whole samples are a multiple of
    int padding = 0;                   // bytes behind them that are none, at most
  };
  std::optional<SoundEnd> sound_end_;
  bool is_endless_ = false;                     // a stream of undeclared length, whose last packet is always cut off
  std::int64_t read_up_to_ = 0;                 // position of the last packet that libav gave; negative after a seek
  std::optional<double> time_;                  // of the last packet, in seconds
  int stream_ = 0;                              // of the last packet
  bool is_at_start_ = true;
  bool has_all_parameters_ = false;
};

}  // namespace spdl
