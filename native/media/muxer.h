// From packets to a container.
//
// Owns libav's context and the file it writes. Opening the muxer creates the file. The file is always closed, at the
// latest by the destructor, which leaves it unfinished. One thread per object.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/memory_output.h"
#include "av/options.h"
#include "av/owners.h"
#include "base/watch.h"
#include "media/codec.h"
#include "media/encoder.h"
#include "media/packets.h"

namespace spdl {

class Muxer {
 public:
  // `destination`: a path or URL; `name`: what messages call it; `format`: instead of the one that the destination's
  // extension selects. Throws Error(kMux): unknown format.
  Muxer(const std::string& destination, std::string name, const std::optional<std::string>& format);
  // Into memory, in the format that a file of this name would have; images are written bare.
  static Muxer in_memory(std::string name);

  // Streams are numbered from 0 in the order in which they are added. `encoder`: by name. Throws Error: kEncode, kMux.
  template <class Config>
  Encoder add_encode_stream(const Config& config, const std::optional<std::string>& encoder,
                            const av::Options& options);
  // Adds a stream for existing packets. Copies the codec. Throws Error(kMux) if the format cannot hold such a stream.
  void add_remux_stream(const Codec& codec);

  // Makes the file and writes the header. Options of the format and of the protocol. Throws Error(kMux).
  void open(const av::Options& options);
  // The packets stay as they are. Throws Error(kMux): bad index, another kind of stream, time stamps that the format
  // does not take, a write that failed.
  void write(int stream_index, const Packets& packets);
  // Writes the packets that wait for interleaving, and the trailer. A second call does nothing. Throws Error(kMux).
  void flush();
  // Finishes the file if it is open, and always releases it. Idempotent. Throws Error(kMux) if the file is incomplete,
  // unless an earlier call has thrown that.
  void close();
  // For a muxer in memory, after `flush`: returns the written bytes and closes the muxer.
  std::vector<std::uint8_t> take();

  const AVOutputFormat& format() const;

 private:
  enum class State { kNew, kOpen, kFinished, kClosed };
  struct Shift {
    std::int64_t ticks = 0;
    AVRational time_base{1, 1};
  };

  Muxer(av::OutputPtr context, std::string name) : context_(std::move(context)), name_(std::move(name)) {}
  void expect(State wanted, const char* action) const;
  void expect_format_takes(AVCodecID codec, const char* action) const;
  AVStream& add_stream(const AVCodecParameters& parameters, AVRational time_base, AVRational frame_rate);
  void check_options(const av::Options& options) const;
  void write_trailer();
  int release() noexcept;
  // Whether the common shift of the time stamps is known. Packets wait until then.
  bool shift_is_known() const noexcept;
  void choose_shift();
  void expect_no_gap(const AVPacket& packet);
  void write_packet(av::PacketPtr packet);

  std::unique_ptr<Watch> watch_ = std::make_unique<Watch>();  // lets writing be interrupted; must outlive the context
  std::unique_ptr<av::MemoryOutput> memory_;  // must outlive the context, which may write to it
  av::OutputPtr context_;
  std::string name_;
  State state_ = State::kNew;
  bool has_told_ = false;  // an exception has reported that the file is broken

  bool hides_negative_ = false;           // the format makes players skip what would be displayed before 0
  // By stream: whether a picture was written that is to be shown, and when the first one after it would be that is not.
  std::map<int, std::int64_t> gaps_;
  std::vector<av::PacketPtr> waiting_;    // in the order of writing, in the time bases of their streams
  std::optional<Shift> shift_;            // for all packets not written yet
};

}  // namespace spdl
