// An opened container: a file or URL by name, or data in memory that is read in place.
//
// Owns libav's context and what it reads from; data in memory belongs to the caller and must outlive the Input. All that may
// block ends at the timeout, and when the caller is interrupted (CancellationScope). One thread per object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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

namespace spdl {

struct DemuxConfig {
  std::optional<std::string> format;  // for data without a header
  av::Options format_options;
  int buffer_size = 8096;  // bytes; of data in memory
  bool tolerate_errors = false;
  // By what a container may open others. Without it: if `format` is given by those of the source, else not at all.
  std::optional<std::vector<std::string>> protocols;
  std::optional<double> timeout;  // seconds; of opening, and of reading each packet
  std::string file_name;          // of data in memory, where only that tells the format
};

// A path or URL, or data that the caller keeps alive and unchanged.
using MediaSource = std::variant<std::string, std::span<const std::uint8_t>>;

class Input {
 public:
  // Throws Error: kSourceNotFound, kOpen (not media), kDemux (unknown format or option), kTimeout; Cancelled. `name` is what
  // messages say.
  Input(MediaSource source, std::string name, DemuxConfig config);
  ~Input();
  Input(Input&&) noexcept;

  AVFormatContext& context() const noexcept { return *context_; }
  const std::string& name() const noexcept { return name_; }

  // The next packet, of whatever stream is not discarded; false at the end. Throws Error(kDemux) for damage: a read
  // error, a packet that the container marks as corrupt, data that ends before the container says so; kTimeout; Cancelled.
  // Where errors are tolerated, they are counted: reading goes on with the damaged packet where the container is one that
  // was made for losses (MPEG transport streams), and ends elsewhere.
  bool read(AVPacket& packet);
  // How many errors were tolerated since it was asked last.
  int take_num_errors() noexcept { return std::exchange(num_errors_, 0); }
  // Whether nothing has been read since it was opened, so that `read` starts with the first packet.
  bool is_at_start() const noexcept { return is_at_start_; }

  // The packet that comes `index` packets after the next one, which `read` still gives; null at the end. Valid until the next
  // call. Throws as `read`, but for errors that are tolerated.
  const AVPacket* peek(std::size_t index);
  // libav's own seek, to the best place from `min_ticks` to `ticks`; `flags` are those of avformat_seek_file. False if it
  // failed: before packets are read again, the input must be opened anew. The caller has to check where it lands.
  bool seek(int stream, std::int64_t min_ticks, std::int64_t ticks, int flags);
  // Reads bytes of the source, fewer at its end and where reading fails. Before packets are read again, there must be a seek,
  // or the input must be opened anew. Throws Error(kTimeout); Cancelled.
  std::size_t read_at(std::int64_t position, std::span<std::uint8_t> into);
  // Whether the container tells when pictures are displayed, and not only when they are decoded, or nothing.
  bool knows_display() const noexcept;
  // Whether no picture is displayed before its decoding time stamp. FLV has encoders that write such pictures.
  bool has_reliable_dts() const noexcept;
  // Of a stream without times, what the options say.
  std::optional<AVRational> asked_frame_rate() const;
  // Opens it anew.
  void reopen();
  // Whether libav has looked into the streams: if not, their codec parameters are what the header said.
  bool has_all_parameters() const noexcept { return has_all_parameters_; }
  // The same source once more, looked into.
  Input with_all_parameters() const;

 private:
  // What the context refers to, at an address that does not change.
  struct Surroundings;

  Input(MediaSource source, std::string name, DemuxConfig config, bool find_all_parameters);

  void open(bool find_all_parameters);
  std::string open_source(const AVInputFormat* format, av::Dictionary& options_of_url);
  void fail_unless_opened(int code, const av::LogCapture& said) const;
  void fail_if_empty() const;

  MediaSource source_;
  std::string name_;
  DemuxConfig config_;
  std::unique_ptr<Surroundings> surroundings_;  // before the context
  av::InputPtr context_;
  void expect_no_failure() const;
  bool read_next(AVPacket& packet);
  bool read_marked(AVPacket& packet);
  bool is_before_joint(const AVPacket& damaged);
  void forget_ahead() noexcept;
  void expect_all_data() const;
  Error damaged_packet() const;

  std::deque<av::PacketPtr> ahead_;             // read to judge one that is marked as damaged
  bool is_ended_ = false;                       // by an error that was tolerated
  int num_errors_ = 0;
  std::optional<std::uint64_t> declared_size_;  // bytes that the container says there are
  bool is_endless_ = false;                     // nobody has said how long it is, so that its last packet is always cut off
  std::optional<double> time_;                  // of the last packet, in seconds
  int stream_ = 0;                              // of the last packet
  bool is_at_start_ = true;
  bool has_all_parameters_ = false;
};

}  // namespace spdl
