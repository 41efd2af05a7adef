// Options by name, as users give them, for libav's functions that take an AVDictionary.

#pragma once

extern "C" {
#include <libavutil/dict.h>
}

#include <map>
#include <string>

#include "base/error.h"

namespace spdl::av {

using Options = std::map<std::string, std::string>;

// An AVDictionary for one call. libav takes out what it knows; what is left nobody knew.
class Dictionary {
 public:
  explicit Dictionary(const Options& options);
  ~Dictionary() { av_dict_free(&dictionary_); }
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  AVDictionary** address() noexcept { return &dictionary_; }
  void set(const char* key, const char* value);
  // Keeps what is in the other, too: of two that were each used by one of libav's functions, what neither knew.
  void keep_common(const Dictionary& other);

  // Throws an Error of `kind` that names the options that are left: "unknown option 'x'".
  void expect_all_used(ErrorKind kind, const char* action, const std::string& source = {}) const;

 private:
  AVDictionary* dictionary_ = nullptr;
};

}  // namespace spdl::av
