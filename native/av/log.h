// What FFmpeg says while a call runs: its return codes name a kind of failure, and only its log says which filter,
// option or value was meant.
//
//   LogCapture said;
//   check(avfilter_graph_config(…), kind, action, source, said);
//
// A capture hears the thread that made it, from its birth to its end, at any log level; what FFmpeg prints stays as it
// was. Captures nest: the innermost hears. An object of one thread, in automatic storage.

#pragma once

#include <string>

#include "base/error.h"

namespace spdl::av {

// Makes captures hear, from now on: called once, when the library is loaded. A second call changes nothing.
void start_listening() noexcept;

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

// `check` of check.h, with what was said as the detail; std::bad_alloc for ENOMEM without a word.
int check(int code, ErrorKind kind, const std::string& action, const std::string& source, const LogCapture& said);

}  // namespace spdl::av
