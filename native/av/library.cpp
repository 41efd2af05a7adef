#include "av/library.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libswscale/swscale.h>
}

#include <dlfcn.h>

#include <algorithm>

#include "base/error.h"

namespace spdl::av {
namespace {

std::string file_of(unsigned (*function)()) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  return info.dli_fname;
}

Library library(const char* name, unsigned (*version)()) {
  const unsigned number = version();
  return {name, static_cast<int>(AV_VERSION_MAJOR(number)), static_cast<int>(AV_VERSION_MINOR(number)),
          static_cast<int>(AV_VERSION_MICRO(number)), file_of(version)};
}

template <class IsOfKind>
std::vector<std::string> codecs(const std::string& name, const AVCodec* first, IsOfKind is_of_kind) {
  const AVCodecDescriptor* descriptor = avcodec_descriptor_get_by_name(name.c_str());
  std::vector<std::string> found;
  if (descriptor == nullptr) {
    return found;
  }
  if (first != nullptr) {
    found.emplace_back(first->name);
  }
  void* position = nullptr;
  while (const AVCodec* codec = av_codec_iterate(&position)) {
    if (codec->id == descriptor->id && codec != first && is_of_kind(codec) != 0) {
      found.emplace_back(codec->name);
    }
  }
  return found;
}

AVCodecID id_of(const std::string& name) {
  const AVCodecDescriptor* descriptor = avcodec_descriptor_get_by_name(name.c_str());
  return descriptor != nullptr ? descriptor->id : AV_CODEC_ID_NONE;
}

}  // namespace

std::vector<Library> libraries() {
  return {library("libavcodec", &avcodec_version), library("libavfilter", &avfilter_version),
          library("libavformat", &avformat_version), library("libavutil", &avutil_version),
          library("libswscale", &swscale_version)};
}

std::string version() { return av_version_info(); }
std::string license() { return avcodec_license(); }
std::string configuration() { return avcodec_configuration(); }

std::vector<std::string> filters() {
  std::vector<std::string> names;
  void* position = nullptr;
  while (const AVFilter* filter = av_filter_iterate(&position)) {
    names.emplace_back(filter->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void require_filter(const std::string& name) {
  if (avfilter_get_by_name(name.c_str()) == nullptr) {
    throw Error(ErrorKind::kFilter, "use the filter '" + name + "'", "this build of FFmpeg does not have it");
  }
}

std::vector<std::string> decoders(const std::string& codec) {
  return codecs(codec, avcodec_find_decoder(id_of(codec)), &av_codec_is_decoder);
}

std::vector<std::string> encoders(const std::string& codec) {
  return codecs(codec, avcodec_find_encoder(id_of(codec)), &av_codec_is_encoder);
}

}  // namespace spdl::av
