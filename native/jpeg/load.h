// Loads pictures from files or memory into slots of a batch, with an outcome for each: JPEG by libjpeg-turbo, the rest
// by the fallback loader.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "image/batch.h"

namespace spdl {

// The loader for sources that are not JPEG, and for JPEGs that libjpeg-turbo does not decode.
struct Fallback {
  const FallbackLoader* loader = nullptr;
  std::optional<std::string> unavailable_because;  // why there is no loader; such sources fail with this reason
};

// The work of one call: source i goes to slots[i]. `seeds` and `replay` are empty, or have one entry per source.
struct Job {
  std::span<const ImageSource> sources;
  std::span<std::uint8_t* const> slots;
  const Transform& transform;
  std::span<const std::uint64_t> seeds;
  std::span<const Plan> replay;
  Fallback fallback;
  std::int64_t max_pixels = kDefaultMaxPixels;  // of a picture
  int num_threads = 0;  // including the caller's; 0 means 1
  // Whether to skip the remaining sources. Called from time to time in the caller's thread.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct Outcome {
  std::optional<Error> error;  // none: loaded as planned
  Plan plan;
};

// Loads each source into its slot. The contents of the slot of a source that fails are undefined. Returns an outcome
// for each source. Returns nothing and stops early if a source needs the fallback loader and `fallback` has neither a
// loader nor a reason, or if the call was cancelled. The result does not depend on the number of threads or on their
// scheduling. Threads live for the call (base/crew.h). Thread-safe. Throws std::logic_error for a broken invariant,
// which is a bug in this library and not the failure of a source.
std::optional<std::vector<Outcome>> load_slots(const Job& job);

struct WholeJpeg {
  Buffer pixels;  // RGB, row by row
  int height = 0;
  int width = 0;
};

// Decodes a JPEG at full size, as libjpeg-turbo does by default; upright if `orient`. Empty for a source that is not a
// JPEG, a JPEG that libjpeg-turbo does not decode, and a URL.
// Throws Error: kSourceNotFound, kOpen, kDecode, kImageTooLarge. Thread-safe.
std::optional<WholeJpeg> load_whole_jpeg(const ImageSource& source, bool orient, std::int64_t max_pixels);

}  // namespace spdl
