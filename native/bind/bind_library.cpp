#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "av/library.h"
#include "av/log.h"
#include "bind/registration.h"
#include "media/heif_decoder.h"
#include "media/tiff_decoder.h"
#include "media/webp_decoder.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kLibrariesDoc = R"(The FFmpeg libraries in use: name, version, and the file each was loaded from, "" if unknown.)";

constexpr const char* kRequireFilterDoc = R"(Raise FilterError if this FFmpeg has no such filter.)";

using Version = std::tuple<int, int, int>;

std::vector<std::tuple<std::string, Version, std::string>> libraries() {
  std::vector<std::tuple<std::string, Version, std::string>> found;
  for (const av::Library& library : av::libraries()) {
    found.emplace_back(library.name, Version(library.major, library.minor, library.micro), library.path);
  }
  return found;
}

nb::object version_or_none(const std::string& version) {
  return version.empty() ? nb::none() : nb::object(nb::str(version.data(), version.size()));
}

}  // namespace

void register_library(nb::module_& module) {
  module.def("libraries", &libraries, kLibrariesDoc);
  module.def("libheif_version", [] { return version_or_none(libheif_version()); },
             nb::sig("def libheif_version() -> str | None"), "Version of libheif; ``None`` if this build has none.");
  module.def("libheif_path", &libheif_path, "File that libheif was loaded from.");
  module.def("libheif_reads_hevc", &libheif_reads_hevc, "Whether libheif has a decoder for HEVC, as HEIC needs.");
  module.def("libwebp_version", [] { return version_or_none(libwebp_version()); }, nb::sig("def libwebp_version() -> str | None"),
             "Version of libwebp; ``None`` if this build has none.");
  module.def("libwebp_path", &libwebp_path, "File that libwebp was loaded from.");
  module.def("libtiff_version", [] { return version_or_none(libtiff_version()); },
             nb::sig("def libtiff_version() -> str | None"), "Version of libtiff; ``None`` if this build has none.");
  module.def("libtiff_path", &libtiff_path, "File that libtiff was loaded from.");
  module.def("version", &av::version, "Version of FFmpeg.");
  module.def("license", &av::license, "Licence of this build of FFmpeg.");
  module.def("configuration", &av::configuration, "Options that FFmpeg was configured with.");
  module.def("filters", &av::filters, "Names of all filters.");
  module.def("decoders", &av::decoders, "codec"_a,
             "Names of the decoders for a codec, the default one first; empty for a codec that FFmpeg does not know.");
  module.def("encoders", &av::encoders, "codec"_a,
             "Names of the encoders for a codec, the default one first; empty for a codec that FFmpeg does not know.");
  module.def("require_filter", &av::require_filter, "name"_a, kRequireFilterDoc);
  module.def("log_level", &av::log_level, "FFmpeg's log level during calls of this library.");
  module.def("set_log_level", &av::set_log_level, "level"_a, "Set FFmpeg's log level for the whole process.");
}

}  // namespace spdl::bind
