#include "av/options.h"

#include <new>

namespace spdl::av {

Dictionary::Dictionary(const Options& options) {
  for (const auto& [key, value] : options) {
    set(key.c_str(), value.c_str());
  }
}

void Dictionary::set(const char* key, const char* value) {
  if (av_dict_set(&dictionary_, key, value, 0) < 0) {
    av_dict_free(&dictionary_);
    throw std::bad_alloc();
  }
}

void Dictionary::keep_common(const Dictionary& other) {
  AVDictionary* common = nullptr;
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(dictionary_, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    if (av_dict_get(other.dictionary_, entry->key, nullptr, AV_DICT_MATCH_CASE) != nullptr &&
        av_dict_set(&common, entry->key, entry->value, 0) < 0) {
      av_dict_free(&common);
      throw std::bad_alloc();
    }
  }
  av_dict_free(&dictionary_);
  dictionary_ = common;
}

void Dictionary::expect_all_used(ErrorKind kind, const char* action, const std::string& source) const {
  std::string names;
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(dictionary_, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    names += (names.empty() ? "'" : ", '") + std::string(entry->key) + "'";
  }
  if (!names.empty()) {
    throw Error(kind, action, "unknown option " + names).in(source);
  }
}

}  // namespace spdl::av
