// Orientations of every format that stores one: whatever the bytes are, it is one of the eight.

#include <cstdlib>

#include "fuzz/target.h"
#include "image/exif.h"
#include "image/orientation.h"

void fuzz(std::span<const std::uint8_t> data) {
  for (const int orientation : {spdl::stored_orientation(data), spdl::shown_orientation(spdl::exif_orientation(data)),
                                spdl::shown_orientation(spdl::xmp_orientation(data))}) {
    if (orientation < 1 || orientation > 8) {
      std::abort();
    }
  }
}
