// Which other files and hosts opening a container may access.
//
// The bytes decide which of FFmpeg's demuxers reads them, and some demuxers do nothing but open what the bytes name:
// files of this machine, hosts of its network. So unless the user asks for it, such demuxers are not chosen, and
// whatever another one wants to open is refused.

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

  // Before the context is opened. `default_protocols`: what it may use if it may open others and nobody said by what;
  // null: those that FFmpeg allows by itself.
  void restrict(AVFormatContext& context, const char* default_protocols);
  // Throws Error(kOpen) for a format that was found by probing, and does not stand alone.
  void check(const AVInputFormat& format, const std::string& source) const;
  // Throws Error(kOpen) if the container wanted to open something meanwhile.
  void throw_if_refused(const char* action, const std::string& source) const;

 private:
  static int refuse(AVFormatContext* context, AVIOContext** io, const char* url, int flags, AVDictionary** options) noexcept;

  bool may_open_others_;
  std::optional<std::vector<std::string>> protocols_;
  std::string refused_;
};

}  // namespace spdl
