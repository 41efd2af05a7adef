// The general way of one picture into its place in a batch: FFmpeg's decoders, then the same drawing as of JPEG.

#pragma once

#include "image/batch.h"

namespace spdl {

// Lives as long as the library is loaded. Safe from any thread; each keeps scratch memory of its own.
const GeneralWay& general_way() noexcept;

}  // namespace spdl
