// Pictures, from files or memory into slots of a batch, with an outcome for each: JPEG by libjpeg-turbo, the rest by the
// general way.

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

// Where sources go that are not JPEG, or a JPEG that libjpeg-turbo does not decode.
struct WayOut {
  const GeneralWay* way = nullptr;
  std::optional<std::string> why_none;  // in place of a way: such sources fail with this reason
};

// What one call loads: source i goes to slots[i]. `seeds` and `replay` are empty, or as many as the sources.
struct Job {
  std::span<const ImageSource> sources;
  std::span<std::uint8_t* const> slots;
  const Transform& transform;
  std::span<const std::uint64_t> seeds;
  std::span<const Plan> replay;
  WayOut way_out;
  std::int64_t max_pixels = kDefaultMaxPixels;  // of a picture
  int num_threads = 0;  // that work, the caller's among them; 0 is 1
  // Asked now and then, in the caller's thread: whether to leave the rest.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct Outcome {
  std::optional<Error> error;  // none: loaded as planned
  Plan plan;
  bool is_settled = false;
};

// Loads each source into its slot. The slot of a source that fails holds no particular bytes. Returns an outcome for
// each; or nothing, and stops early, if a source needs the general way and `way_out` says nothing of it, or if it was
// cancelled.
// What is loaded depends neither on the number of threads nor on who works. Threads live for the call: to start one
// takes some 20 us, and nothing of them is left to survive a fork or to delay the process's end.
// Safe to call from several threads at once.
std::optional<std::vector<Outcome>> load_slots(const Job& job);

struct WholeJpeg {
  Buffer pixels;  // RGB, row by row
  int height = 0;
  int width = 0;
};

// A picture of its own size, as libjpeg-turbo's users get it; upright if that is asked. Nothing for a source that is no
// JPEG, or one that libjpeg-turbo does not decode, and for a URL.
// Throws Error: kSourceNotFound, kOpen, kDecode, kImageTooLarge. Safe from any thread.
std::optional<WholeJpeg> load_whole_jpeg(const ImageSource& source, bool orient, std::int64_t max_pixels);

}  // namespace spdl
