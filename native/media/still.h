// The general way of one picture into its place in a batch: FFmpeg's decoders, then the same drawing as of JPEG.

#pragma once

#include <optional>
#include <string>

#include "image/batch.h"
#include "image/bytes.h"

namespace spdl {

// Lives as long as the library is loaded. Safe from any thread; each keeps scratch memory of its own.
const GeneralWay& general_way() noexcept;

// Reads all that a URL names into `into`; the result is a view of it. `timeout`: seconds that it may take. Throws Error:
// kSourceNotFound, kOpen, kTimeout; Cancelled.
Bytes read_url(const std::string& url, Buffer& into, std::optional<double> timeout);

}  // namespace spdl
