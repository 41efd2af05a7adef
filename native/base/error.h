// Failures that cross to Python as typed exceptions.
//
// An Error says what was attempted (action), on what (source), and what came back (reason; with FFmpeg's text and code
// if FFmpeg failed). bind/errors.cpp alone maps a kind to a Python class. Values; free to copy between threads.

#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace spdl {

// One for each class of spdl.io._errors that native code raises.
enum class ErrorKind {
  kMedia,  // an object was used wrongly: from two threads at once, or in the wrong order
  kSourceNotFound,
  kOpen,
  kTimeout,
  kStreamNotFound,
  kDemux,
  kDecode,
  kImageTooLarge,  // a picture with more pixels than allowed
  kFilter,
  kUnknownNode,
  kConvert,
  kUnsupportedFormat,
  kEncode,
  kMux,
  kNoCodec,
  kConsumed,
  kClosed,
  kArchive,
  kWav,
  kNativeLibrary,
};

// An exception from code outside this library, such as a Python exception.
struct ForeignError {
  virtual ~ForeignError() = default;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string action, std::string reason)
      : std::runtime_error(reason), kind_(kind), action_(std::move(action)), reason_(std::move(reason)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& action() const noexcept { return action_; }
  const std::string& reason() const noexcept { return reason_; }

  // A path, URL or `Bytes: 0x…`; empty if not known (yet).
  std::string source;
  std::optional<int> code;          // FFmpeg's
  std::optional<int> stream_index;  // demuxing and decoding
  std::optional<double> pts;        // in seconds; demuxing and decoding
  // The exception that the caller gets instead of this one.
  std::shared_ptr<const ForeignError> foreign;

  // `throw Error(…).in(source)`.
  Error&& in(std::string name) && {
    source = std::move(name);
    return std::move(*this);
  }
  Error&& at(std::optional<int> stream, std::optional<double> seconds) && {
    stream_index = stream;
    pts = seconds;
    return std::move(*this);
  }

 private:
  ErrorKind kind_;
  std::string action_;
  std::string reason_;
};

// The caller no longer wants the result (see CancellationScope in base/watch.h). It is not about a source, so it is not
// an Error, and code that tolerates or collects Errors must let it pass.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

}  // namespace spdl
