// Controls which other files and hosts may be accessed when a container is opened.
//
// FFmpeg chooses a demuxer by the bytes of the source, and some demuxers open whatever the bytes name: local files, or
// hosts of the network. So unless the user asks for it, such demuxers are not chosen, and other demuxers may not open
// anything else.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "av/owners.h"

namespace spdl {

// Lives as long as the context that it is applied to, at one address.
class Access {
 public:
  // `format` and `protocols`: as in DemuxConfig. Either of them asks for more than the container itself.
  // Throws Error(kDemux): unknown protocol.
  Access(bool is_format_given, std::optional<std::vector<std::string>> protocols, const std::string& source);
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  // Call before the context is opened. `default_protocols`: the protocols allowed if the context may open other sources
  // and the user gave no list; null: FFmpeg's own default.
  void restrict(AVFormatContext& context, const char* default_protocols);
  // Throws Error(kOpen) for a format that was found by probing and refers to other sources.
  void check(const AVInputFormat& format, const std::string& source) const;
  // Throws Error(kOpen) if the container has tried to open another source.
  void throw_if_refused(const char* action, const std::string& source) const;

 private:
  static int refuse(AVFormatContext* context, AVIOContext** io, const char* url, int flags, AVDictionary** options) noexcept;

  bool may_open_others_;
  std::optional<std::vector<std::string>> protocols_;
  std::string refused_;
};

}  // namespace spdl
