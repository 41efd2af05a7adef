#include "av/log.h"

extern "C" {
#include <libavutil/error.h>
#include <libavutil/log.h>
}

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "av/check.h"

namespace spdl::av {
namespace {

// A broken file can make a decoder complain for every block; a message needs the first few.
constexpr std::size_t kMaxText = 2000;

// The innermost capture of this thread. Only its thread reads or writes it.
thread_local LogCapture* listener = nullptr;

// The graph itself says nothing by its name, and its address even less.
const char* name_of(void* context) {
  if (context == nullptr) {
    return "";
  }
  const AVClass* kind = *static_cast<const AVClass* const*>(context);
  if (kind == nullptr) {
    return "";
  }
  const char* name = kind->item_name != nullptr ? kind->item_name(context) : kind->class_name;
  return name == nullptr || std::strcmp(name, "AVFilterGraph") == 0 ? "" : name;
}

void on_message(void* context, int level, const char* format, std::va_list arguments) {
  if (listener != nullptr && level >= 0 && (level & 0xff) <= AV_LOG_ERROR) {
    std::va_list again;
    va_copy(again, arguments);
    std::array<char, 1024> words{};
    std::vsnprintf(words.data(), words.size(), format, again);
    va_end(again);
    listener->hear(name_of(context), words.data());
  }
  av_log_default_callback(context, level, format, arguments);
}

}  // namespace

void start_listening() noexcept { av_log_set_callback(&on_message); }

LogCapture::LogCapture() noexcept : outer_(listener) { listener = this; }

LogCapture::~LogCapture() { listener = outer_; }

void LogCapture::hear(const char* speaker, const char* words) {
  if (lines_.size() >= kMaxText) {
    return;
  }
  try {
    const bool is_new_line = lines_.empty() || lines_.back() == '\n';
    if (is_new_line && *speaker != '\0') {
      lines_ += std::string("[") + speaker + "] ";
    }
    lines_ += words;
  } catch (const std::exception&) {
    // No memory for the words: the caller is C, and the code that it returns says enough.
    return;
  }
}

std::string LogCapture::text() const {
  std::string text;
  for (const char letter : lines_) {
    text += letter == '\n' ? "; " : std::string(1, letter);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == ';' || text.back() == '.')) {
    text.pop_back();
  }
  return text;
}

int check(int code, ErrorKind kind, const std::string& action, const std::string& source, const LogCapture& said) {
  if (code >= 0) {
    return code;
  }
  const std::string detail = said.text();
  // Some filters say ENOMEM of options that they do not like; then they say more.
  if (code == AVERROR(ENOMEM) && detail.empty()) {
    throw std::bad_alloc();
  }
  throw make_error(kind, code, action, source, detail);
}

}  // namespace spdl::av
