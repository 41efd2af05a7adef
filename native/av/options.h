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

// An AVDictionary for one call. libav removes the options that it knows; the remaining ones are unknown.
class Dictionary {
 public:
  explicit Dictionary(const Options& options);
  ~Dictionary() { av_dict_free(&dictionary_); }
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  AVDictionary** address() noexcept { return &dictionary_; }
  void set(const char* key, const char* value);
  // Keeps only the options that are also in the other: after two libav functions used one each, those that neither
  // knew.
  void keep_common(const Dictionary& other);

  // Throws an Error of `kind` that names the remaining options: "unknown option 'x'".
  void expect_all_used(ErrorKind kind, const char* action, const std::string& source = {}) const;

 private:
  AVDictionary* dictionary_ = nullptr;
};

}  // namespace spdl::av
