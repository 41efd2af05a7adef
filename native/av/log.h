// What FFmpeg says while a call runs: its return codes name a kind of failure, and only its log says which filter,
// option or value was meant.
//
//   LogCapture said;
//   check(avfilter_graph_config(…), kind, action, source, said);
//
// A capture hears the thread that made it, from its birth to its end, at any log level. Captures nest: the innermost
// hears. An object of one thread, in automatic storage.
//
// FFmpeg has one callback and one level for the whole process, which others in it may use. So nothing is set when we are
// loaded. The callback is set when it is first needed, and passes on what is not of ours to the one that was there before;
// what is of ours is printed up to a level of our own. Ours is what a thread says within an OwnCall or a capture, and what
// is said of a context that is marked, whose threads are FFmpeg's.

#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
}

#include <string>

#include "base/error.h"

namespace spdl::av {

// Makes captures hear, from now on. A second call changes nothing.
void listen() noexcept;

// The level up to which what is ours is printed: AV_LOG_FATAL at first, for what goes wrong is told by exceptions.
int log_level() noexcept;
// Of FFmpeg as well: for the whole process, as the caller asked for it.
void set_log_level(int level) noexcept;

// What is said of it is ours, on whatever thread. They must not have an `opaque` of another kind.
void mark_as_ours(AVCodecContext& context) noexcept;
void mark_as_ours(AVFilterGraph& graph) noexcept;

class LogCapture {
 public:
  LogCapture() noexcept;
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Errors so far, each after the name of who had it, such as `[Parsed_scale_0]`; several are separated by "; ".
  std::string text() const;

  // Called by the log's callback.
  void hear(const char* speaker, const char* words);

 private:
  LogCapture* outer_;
  std::string lines_;
};

// `check` of check.h, with what was said as the detail.
int check(int code, ErrorKind kind, const std::string& action, const std::string& source, const LogCapture& said);

}  // namespace spdl::av
