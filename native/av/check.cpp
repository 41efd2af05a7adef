#include "av/check.h"

extern "C" {
#include <libavutil/error.h>
}

#include <array>
#include <cerrno>

namespace spdl::av {

std::string error_text(int code) {
  if (code == AVERROR(ENOMEM)) {
    return "it takes more memory than there is, or than FFmpeg allows; damaged data often asks for that";
  }
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return text.data();
}

Error make_error(ErrorKind kind, int code, std::string action, std::string source, const std::string& detail) {
  // -1 is what some decoders return instead of a code; decoding does not depend on permissions.
  const bool is_no_code = code == AVERROR(EPERM) && kind == ErrorKind::kDecode;
  const std::string text = is_no_code ? "FFmpeg's decoder does not support it, or it is damaged" : error_text(code);
  Error error(kind, std::move(action), detail.empty() ? text : detail + ": " + text);
  error.source = std::move(source);
  error.code = code;
  return error;
}

int check(int code, ErrorKind kind, const char* action, const std::string& source) {
  if (code >= 0) {
    return code;
  }
  throw make_error(kind, code, action, source);
}

}  // namespace spdl::av
