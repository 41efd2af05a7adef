#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/registration.h"
#include "jpeg/decoder.h"
#include "jpeg/gray_encoder.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kDecodeDoc = R"(Decode a JPEG to planes of its full size, drop them, and return their sizes.

This is the part of loading that libjpeg-turbo does, for benchmarks to compare with. Releases the GIL.)";

nb::list decode_planes(const nb::object& data) {
  const Export held(data, false, "data");
  std::vector<std::pair<int, int>> sizes;
  {
    const GilReleased released;
    thread_local JpegDecoder decoder;
    const JpegHeader header = decoder.open({held.data(), held.size()}, false, kDefaultMaxPixels);
    const Picture picture = decoder.decode({0, 0, header.height, header.width}, 1.0, false);
    for (std::size_t i = 0; i < static_cast<std::size_t>(picture.num_components); ++i) {
      sizes.emplace_back(picture.components[i].width, picture.components[i].height);
    }
  }
  nb::list result;
  for (const auto& [width, height] : sizes) {
    result.append(nb::make_tuple(width, height));
  }
  return result;
}

constexpr const char* kEncodeGrayDoc = R"(Encode a gray picture as a JPEG of one component.

Args:
    pixels: Rows without padding, one byte a pixel.
    height, width: The size.
    qscale: As for FFmpeg's encoder of JPEG, from 2, the best, to 31.
    name: The file in messages.

Raises:
    EncodeError: libjpeg-turbo refuses the picture, such as for its size.

Releases the GIL.)";

nb::bytes encode_gray(const nb::object& pixels, int height, int width, int qscale, const std::string& name) {
  const Export held(pixels, false, "pixels");
  if (width < 1 || height < 1 || held.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {
    throw nb::value_error("pixels must be of height x width bytes");
  }
  std::vector<std::uint8_t> encoded;
  {
    const GilReleased released;
    encoded = encode_gray_jpeg({held.data(), held.size()}, width, height, qscale, name);
  }
  return nb::bytes(encoded.data(), encoded.size());
}

}  // namespace

void register_jpeg(nb::module_& module) {
  module.def("decode_planes", &decode_planes, "data"_a,
             nb::sig("def decode_planes(data: typing_extensions.Buffer) -> list[tuple[int, int]]"), kDecodeDoc);
  module.def("encode_gray_jpeg", &encode_gray, "pixels"_a, nb::kw_only(), "height"_a, "width"_a, "qscale"_a, "name"_a,
             nb::sig("def encode_gray_jpeg(pixels: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any], *, height: int, "
                     "width: int, qscale: int, name: str) -> bytes"),
             kEncodeGrayDoc);
  module.def("libjpeg_turbo_version", &libjpeg_turbo_version, "Version of the libjpeg-turbo headers of this build.");
  module.def("libjpeg_turbo_path", &libjpeg_turbo_path, "File that libjpeg-turbo was loaded from.");
}

}  // namespace spdl::bind
