#include "av/log.h"

#ifdef __linux__
#include <link.h>
#endif

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavutil/error.h>
#include <libavutil/log.h>
}

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "av/check.h"
#include "base/own_call.h"

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

using Callback = void (*)(void*, int, const char*, std::va_list);

std::atomic<Callback> callback_before = &av_log_default_callback;
std::atomic<int> own_level = AV_LOG_FATAL;
int mark = 0;  // its address is the `opaque` of what is ours

// Contexts within contexts (a codec's private one, a filter of a graph) know their parents.
bool is_marked(void* context) noexcept {
  constexpr int kDeepest = 8;
  for (int i = 0; i < kDeepest && context != nullptr; ++i) {
    const AVClass* kind = *static_cast<const AVClass* const*>(context);
    if (kind == nullptr) {
      return false;
    }
    if (kind == avcodec_get_class()) {
      return static_cast<const AVCodecContext*>(context)->opaque == &mark;
    }
    if (kind == avfilter_get_class()) {
      const AVFilterGraph* graph = static_cast<const AVFilterContext*>(context)->graph;
      return graph != nullptr && graph->opaque == &mark;
    }
    if (std::strcmp(kind->class_name, "AVFilterGraph") == 0) {
      return static_cast<const AVFilterGraph*>(context)->opaque == &mark;
    }
    context = kind->parent_log_context_offset == 0
                  ? nullptr
                  : *reinterpret_cast<void**>(static_cast<char*>(context) + kind->parent_log_context_offset);
  }
  return false;
}

void on_message(void* context, int level, const char* format, std::va_list arguments) {
  if (listener == nullptr && !OwnCall::is_under_way() && !is_marked(context)) {
    if (const Callback before = callback_before.load(std::memory_order_relaxed)) {
      before(context, level, format, arguments);
    }
    return;
  }
  if (listener != nullptr && level >= 0 && (level & 0xff) <= AV_LOG_ERROR) {
    std::va_list again;
    va_copy(again, arguments);
    std::array<char, 1024> words{};
    std::vsnprintf(words.data(), words.size(), format, again);
    va_end(again);
    listener->hear(name_of(context), words.data());
  }
  if ((level >= 0 ? level & 0xff : level) <= own_level.load(std::memory_order_relaxed)) {
    av_log_default_callback(context, level, format, arguments);
  }
}

#ifdef __linux__
// FFmpeg can be given a callback, and does not say which one it has. It keeps it in a variable: the only one of its
// library that changes to ours as we give it ours.
class Variables {
 public:
  Variables() { dl_iterate_phdr(&add_library, this); }

  std::optional<Callback> that_became(Callback callback) const {
    const auto now = reinterpret_cast<std::uintptr_t>(callback);
    std::optional<Callback> before;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::size_t k = 0; k < words_[i].size(); ++k) {
        if (segments_[i][k] == now && words_[i][k] != now) {
          if (before) {
            return std::nullopt;  // we know less than we thought
          }
          before = reinterpret_cast<Callback>(words_[i][k]);
        }
      }
    }
    return before;
  }

 private:
  using Words = std::span<const volatile std::uintptr_t>;

  static int add_library(dl_phdr_info* info, std::size_t, void* object) {
    const auto inside = reinterpret_cast<std::uintptr_t>(&av_log_default_callback);
    std::vector<Words> writable;
    bool is_it = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
      if (header.p_type == PT_LOAD && inside >= begin && inside - begin < header.p_memsz) {
        is_it = true;
      }
      if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) {
        const std::uintptr_t first = (begin + sizeof(begin) - 1) / sizeof(begin) * sizeof(begin);
        writable.emplace_back(reinterpret_cast<const volatile std::uintptr_t*>(first),
                              (begin + header.p_memsz - first) / sizeof(begin));
      }
    }
    if (is_it) {
      auto& self = *static_cast<Variables*>(object);
      for (const Words& words : writable) {
        self.segments_.push_back(words);
        self.words_.emplace_back(words.begin(), words.end());
      }
    }
    return is_it ? 1 : 0;
  }

  std::vector<Words> segments_;
  std::vector<std::vector<std::uintptr_t>> words_;  // what was there
};

void replace_callback() {
  const Variables variables;
  av_log_set_callback(&on_message);
  callback_before = variables.that_became(&on_message).value_or(&av_log_default_callback);
}
#else
void replace_callback() { av_log_set_callback(&on_message); }
#endif

}  // namespace

void listen() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      replace_callback();
    } catch (const std::bad_alloc&) {
      av_log_set_callback(&on_message);
    }
  });
}

int log_level() noexcept { return own_level; }

void set_log_level(int level) noexcept {
  own_level = level;
  av_log_set_level(level);
}

void mark_as_ours(AVCodecContext& context) noexcept {
  listen();
  context.opaque = &mark;
}

void mark_as_ours(AVFilterGraph& graph) noexcept {
  listen();
  graph.opaque = &mark;
}

LogCapture::LogCapture() noexcept : outer_(listener) {
  listen();
  listener = this;
}

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
  throw make_error(kind, code, action, source, said.text());
}

}  // namespace spdl::av
