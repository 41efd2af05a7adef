#include "av/check.h"

extern "C" {
#include <libavutil/error.h>
}

#include <array>
#include <cerrno>
#include <new>

namespace spdl::av {

std::string error_text(int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return text.data();
}

Error make_error(ErrorKind kind, int code, std::string action, std::string source, const std::string& detail) {
  const std::string text = error_text(code);
  Error error(kind, std::move(action), detail.empty() ? text : detail + ": " + text);
  error.source = std::move(source);
  error.code = code;
  return error;
}

int check(int code, ErrorKind kind, const char* action, const std::string& source) {
  if (code >= 0) {
    return code;
  }
  if (code == AVERROR(ENOMEM)) {
    throw std::bad_alloc();
  }
  throw make_error(kind, code, action, source);
}

}  // namespace spdl::av
