// What headers say of a picture, in every format that is known, whatever the bytes are.

#include <array>
#include <cstdlib>
#include <string_view>

#include "base/sniff.h"
#include "fuzz/target.h"
#include "image/header.h"

void fuzz(std::span<const std::uint8_t> data) {
  static_cast<void>(spdl::sniff_format(data));
  constexpr std::array<std::string_view, 10> kFormats = {"JPEG", "PNG",       "GIF", "WebP", "BMP",
                                                         "TIFF", "JPEG 2000", "PSD", "QOI",  "Netpbm"};
  for (const std::string_view format : kFormats) {
    if (!spdl::declared_size(format, data)) {
      std::abort();
    }
    static_cast<void>(spdl::misread_because(format, data));
    static_cast<void>(spdl::has_padding_for_alpha(format, data));
    static_cast<void>(spdl::ends_early(format, data));
  }
}
