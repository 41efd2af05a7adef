// FFmpeg's log during a call: its return codes name a kind of failure, and only its log says which filter, option or
// value failed.
//
//   LogCapture said;
//   check(avfilter_graph_config(…), kind, action, source, said);
//
// A capture collects the log of the thread that made it while it lives, at any log level. Captures nest: the innermost
// one collects. One thread per object; use it as a local variable only.
//
// FFmpeg has one callback and one level for the whole process, which other code may use too. So loading this library
// sets nothing. The callback is set when it is first needed. It passes messages that do not come from our calls to the
// previous callback; it prints messages of ours up to our own level. A message is ours if a thread logs it within an
// OwnCall or a capture, or if it is about a marked context, whose threads are FFmpeg's.

#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
}

#include <string>

#include "base/error.h"

namespace spdl::av {

// Starts collecting for captures. A second call has no effect.
void listen() noexcept;

// The level up to which our messages are printed. Initially AV_LOG_FATAL, because exceptions report failures.
int log_level() noexcept;
// Sets FFmpeg's level too, for the whole process, as the caller asked.
void set_log_level(int level) noexcept;

// Messages about this context are ours, on any thread. Its `opaque` must not be used for anything else.
void mark_as_ours(AVCodecContext& context) noexcept;
void mark_as_ours(AVFilterGraph& graph) noexcept;

class LogCapture {
 public:
  LogCapture() noexcept;
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Errors so far, each after the name of the component, such as `[Parsed_scale_0]`; several are separated by "; ".
  std::string text() const;

  // Called by the log's callback.
  void hear(const char* speaker, const char* words);

 private:
  LogCapture* outer_;
  std::string lines_;
};

// `check` of check.h, with the captured text as the detail.
int check(int code, ErrorKind kind, const std::string& action, const std::string& source, const LogCapture& said);

}  // namespace spdl::av
