#include "media/access.h"

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace spdl {
namespace {

// No protocol has this name, so that a list of it alone allows none.
constexpr const char* kNoProtocol = "none";

// Formats whose media is in other files, or that execute what they read; and `tty`, which renders any text as a
// picture. Names of FFmpeg's (libavformat/allformats.c, 5.1 to 7.1), whose demuxers open others on their own: hls.c,
// dashdec.c, concatdec.c, imfdec.c, rtsp.c, mpeg.c, avisynth.c, vapoursynth.c. Demuxers without a file of their own
// (AVFMT_NOFILE) are not found by probing, and devices have a category.
constexpr std::array<std::string_view, 11> kReferring = {"hls", "dash", "concat",   "imf",         "sdp", "rtsp",
                                                         "rtp", "sap",  "avisynth", "vapoursynth", "vobsub"};

bool is_device(const AVInputFormat& format) noexcept {
  return format.priv_class != nullptr && AV_IS_INPUT_DEVICE(format.priv_class->category);
}

bool refers(const AVInputFormat& format) noexcept {
  return is_device(format) || std::find(kReferring.begin(), kReferring.end(), format.name) != kReferring.end();
}

bool is_protocol(const std::string& name) noexcept {
  void* position = nullptr;
  while (const char* known = avio_enum_protocols(&position, 0)) {
    if (name == known) {
      return true;
    }
  }
  return false;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text.empty() ? kNoProtocol : text;
}

}  // namespace

Access::Access(bool is_format_given, std::optional<std::vector<std::string>> protocols, const std::string& source)
    : may_open_others_(is_format_given || protocols), protocols_(std::move(protocols)) {
  for (const auto& name : protocols_.value_or(std::vector<std::string>{})) {
    if (!is_protocol(name)) {
      throw Error(ErrorKind::kDemux, "open", "unknown protocol '" + name + "'").in(source);
    }
  }
}

void Access::restrict(AVFormatContext& context, const char* default_protocols) {
  if (!may_open_others_) {
    context.io_open = &refuse;
    context.opaque = this;
  }
  // Some demuxers open without asking `io_open`; none ignores this list.
  std::string list = kNoProtocol;
  if (may_open_others_) {
    if (!protocols_ && default_protocols == nullptr) {
      return;
    }
    list = protocols_ ? join(*protocols_) : default_protocols;
  }
  av_freep(&context.protocol_whitelist);
  context.protocol_whitelist = av_strdup(list.c_str());
  if (context.protocol_whitelist == nullptr) {
    throw std::bad_alloc();
  }
}

void Access::check(const AVInputFormat& format, const std::string& source) const {
  if (may_open_others_) {
    return;
  }
  if (refers(format)) {
    const std::string name = format.name;
    throw Error(ErrorKind::kOpen, "open",
                "it is a list or description (" + name +
                    ") of media in other files or on other hosts, which are not opened unless that is asked for:"
                    " demux_config(format=\"" +
                    name + "\")")
        .in(source);
  }
  if (std::string_view(format.name) == "tty") {
    throw Error(ErrorKind::kOpen, "open",
                "it is text; demux_config(format=\"tty\") shows it as a terminal would")
        .in(source);
  }
}

void Access::throw_if_refused(const char* action, const std::string& source) const {
  if (!refused_.empty()) {
    throw Error(ErrorKind::kOpen, action,
                "it refers to '" + refused_ +
                    "', and what a container refers to is not opened unless that is asked for: demux_config(protocols=…)")
        .in(source);
  }
}

int Access::refuse(AVFormatContext* context, AVIOContext** io, const char* url, int, AVDictionary**) noexcept {
  *io = nullptr;
  // A copy of the context that a demuxer made may be without it.
  if (auto* self = static_cast<Access*>(context->opaque); self != nullptr && self->refused_.empty()) {
    try {
      self->refused_ = url != nullptr && *url != '\0' ? url : "?";
    } catch (const std::bad_alloc&) {
      return AVERROR(ENOMEM);
    }
  }
  return AVERROR(EACCES);
}

}  // namespace spdl
