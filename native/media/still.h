// Loads one picture of any format into its slot of a batch: decodes with FFmpeg, then renders as for JPEG.

#pragma once

#include <optional>
#include <string>

#include "image/batch.h"
#include "image/bytes.h"

namespace spdl {

// Lives as long as the library is loaded. Thread-safe; each thread has its own scratch memory.
const FallbackLoader& fallback_loader() noexcept;

// Reads the whole resource at a URL into `into`; the result is a view of it. `timeout`: the limit in seconds. Throws
// Error: kSourceNotFound, kOpen, kTimeout; Cancelled.
Bytes read_url(const std::string& url, Buffer& into, std::optional<double> timeout);

}  // namespace spdl
