// A batch of pictures, from files or memory into one array, with an outcome for each: JPEG by libjpeg-turbo, the rest by
// the general way.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "image/batch.h"

namespace spdl {

// Where sources go that are not JPEG, or a JPEG that libjpeg-turbo does not decode.
struct WayOut {
  const GeneralWay* way = nullptr;
  std::optional<std::string> why_none;  // in place of a way: such sources fail with this reason
};

// Loads each source, fitted and centred, into its slot of `out`, which has room for all of them. The slot of a source
// that fails holds no particular pixels. Returns an outcome for each source: empty if it was loaded. Returns nothing,
// and stops early, if a source needs the general way and `way_out` says nothing of it.
// Safe to call from several threads at once; each keeps scratch memory of its own.
std::optional<std::vector<std::optional<Error>>> load_batch(std::span<const ImageSource> sources,
                                                            const BatchOptions& options, const WayOut& way_out,
                                                            std::uint8_t* out);

// Moves the slots of loaded sources together, in order, and returns how many there are.
std::size_t close_gaps(std::span<const std::optional<Error>> outcomes, std::size_t bytes_per_image, std::uint8_t* out);

}  // namespace spdl
