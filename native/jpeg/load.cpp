#include "jpeg/load.h"

#include <algorithm>

#include "base/crew.h"
#include "base/file.h"
#include "base/memory_budget.h"
#include "base/scratch.h"
#include "base/sniff.h"
#include "base/watch.h"
#include "image/renderer.h"
#include "image/stored_plan.h"
#include "jpeg/decoder.h"

namespace spdl {
namespace {

struct Workspace {
  Buffer file;
  JpegDecoder decoder;
  Renderer renderer;

  void trim() noexcept {
    decoder.trim(kKeepBytes);
    renderer.trim(kKeepBytes);
    if (file.capacity() > kKeepBytes) {
      file.release();
    }
  }
};

// Thrown for a source that only the fallback can load, when it has neither a loader nor a reason why there is none.
struct NeedsFallback {};

Plan load_by_fallback(const ImageSource& source, std::span<const std::uint8_t> data, const ImageRequest& request,
                      const Fallback& fallback, const std::string& what, std::uint8_t* slot) {
  if (fallback.loader == nullptr) {
    if (!fallback.unavailable_because) {
      throw NeedsFallback{};
    }
    throw Error(ErrorKind::kNativeLibrary, "decode", what + ", which needs FFmpeg: " + *fallback.unavailable_because);
  }
  Plan plan;
  if (auto error = fallback.loader->load(source, data, request, slot, plan)) {
    throw *std::move(error);
  }
  return plan;
}

std::span<const std::uint8_t> read(const std::string& path, const Fallback& fallback, Buffer& into) {
  try {
    return read_file(path, into);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kSourceNotFound || !looks_like_url(path)) {
      throw;
    }
    if (fallback.loader == nullptr && !fallback.unavailable_because) {
      throw NeedsFallback{};
    }
    if (fallback.loader == nullptr) {
      throw Error(ErrorKind::kNativeLibrary, "open", "a URL needs FFmpeg: " + *fallback.unavailable_because);
    }
  }
  std::span<const std::uint8_t> data;
  Watch watch;
  if (auto error = fallback.loader->read(path, into, data, [&] { return watch.is_over(); })) {
    watch.throw_if_over("open");
    throw *std::move(error);
  }
  return data;
}

Plan load_jpeg(std::span<const std::uint8_t> data, const ImageRequest& request, std::uint8_t* slot,
               Workspace& workspace) {
  const Transform& transform = request.transform;
  const JpegHeader header = workspace.decoder.open(data, transform.orient, request.max_pixels);
  const auto orientation = static_cast<Orientation>(header.orientation);
  const bool swaps = swaps_sides(orientation);
  const Plan plan = request.plan(swaps ? header.width : header.height, swaps ? header.height : header.width);
  const StoredPlan stored = stored_plan(plan, orientation);
  const Rect region = needed_pixels(stored, transform.interpolation);
  const PlanesWanted wanted = planes_wanted(transform, plan);
  if (wanted.full_rgb) {
    const auto lease = memory_budget().take(workspace.decoder.memory_needed(region, 1.0));
    workspace.renderer.render(workspace.decoder.decode_to_rgb(region), orientation, plan, transform, slot);
    workspace.trim();
    return plan;
  }
  const auto shrinking = [](const Direction& direction) {
    return static_cast<double>(direction.size) / direction.resized;
  };
  // The nearest sample is one of the picture's own, and a box ends where it ends: without weights that fade, other
  // blocks than the picture's show (28 dB in the worst of 128 photographs).
  const bool may_shrink =
      transform.interpolation != Interpolation::kNearest && transform.interpolation != Interpolation::kBox;
  const double scale = may_shrink ? std::min(shrinking(stored.rows), shrinking(stored.columns)) : 1.0;
  const auto lease = memory_budget().take(workspace.decoder.memory_needed(region, scale));
  const Picture picture = workspace.decoder.decode(region, scale, wanted.luma_only);
  workspace.renderer.render(picture, orientation, plan, transform, slot);
  workspace.trim();  // while the lease is held
  return plan;
}

Plan load_one(const ImageSource& source, const ImageRequest& request, const Fallback& fallback, std::uint8_t* slot,
              Workspace& workspace) {
  const auto* path = std::get_if<std::string>(&source);
  const auto data = path != nullptr ? read(*path, fallback, workspace.file) : std::get<1>(source);
  if (data.empty()) {
    throw Error(ErrorKind::kOpen, "open", "it is empty");
  }
  const std::string_view format = sniff_format(data);
  if (format != "JPEG") {
    const std::string what =
        format.empty() ? "it is of no format that is known here" : "it looks like " + std::string(format);
    return load_by_fallback(source, data, request, fallback, what, slot);
  }
  try {
    return load_jpeg(data, request, slot, workspace);
  } catch (const UnsupportedJpeg& error) {
    return load_by_fallback(source, data, request, fallback,
                          "it is a JPEG that libjpeg-turbo does not decode: " + error.reason(), slot);
  }
}

}  // namespace

std::optional<WholeJpeg> load_whole_jpeg(const ImageSource& source, bool orient, std::int64_t max_pixels) {
  Scratch<Workspace> workspace;
  std::span<const std::uint8_t> data;
  if (const auto* path = std::get_if<std::string>(&source)) {
    std::array<std::uint8_t, 16> start{};
    if (sniff_format(read_start(*path, start)) != "JPEG") {
      return std::nullopt;
    }
    data = read_file(*path, workspace->file);
  } else {
    data = std::get<1>(source);
  }
  if (sniff_format(data) != "JPEG") {
    return std::nullopt;
  }
  WholeJpeg whole;
  try {
    const JpegHeader header = workspace->decoder.open(data, orient, max_pixels);
    const auto orientation = static_cast<Orientation>(header.orientation);
    const bool swaps = swaps_sides(orientation);
    whole.height = swaps ? header.width : header.height;
    whole.width = swaps ? header.height : header.width;
    if (orientation == Orientation::kUpright) {
      const Rect all{0, 0, header.height, header.width};
      const auto lease = memory_budget().take(workspace->decoder.memory_needed(all, 1.0));
      std::uint8_t* out = whole.pixels.reserve(std::size_t{3} * static_cast<std::size_t>(whole.height) *
                                               static_cast<std::size_t>(whole.width));
      if (workspace->decoder.decode_to_packed_rgb(out)) {
        workspace->trim();
        return whole;
      }
    }
    Transform transform;
    transform.height = whole.height;
    transform.width = whole.width;
    transform.interpolation = Interpolation::kNearest;
    transform.orient = orient;
    transform.exact = true;
    load_jpeg(data, {.transform = transform, .max_pixels = max_pixels},
              whole.pixels.reserve(transform.bytes_per_image()), *workspace);
  } catch (const UnsupportedJpeg&) {
    return std::nullopt;
  } catch (...) {
    workspace->trim();
    throw;
  }
  workspace->trim();
  return whole;
}

std::optional<std::vector<Outcome>> load_slots(const Job& job) {
  std::vector<Outcome> outcomes(job.sources.size());
  const auto load = [&](std::size_t i) {
    Scratch<Workspace> workspace;
    const ImageRequest request{job.transform, job.seeds.empty() ? 0 : job.seeds[i],
                               job.replay.empty() ? nullptr : &job.replay[i], job.max_pixels};
    try {
      outcomes[i].plan = load_one(job.sources[i], request, job.fallback, job.slots[i], *workspace);
    } catch (const NeedsFallback&) {
      return false;
    } catch (...) {
      workspace->trim();
      throw;
    }
    workspace->trim();
    return true;
  };
  const auto size_of = [&](std::size_t i) { return encoded_size(job.sources[i]); };
  const auto announce = [&](std::size_t i) {
    if (const auto* path = std::get_if<std::string>(&job.sources[i])) {
      read_ahead(*path);
    }
  };
  const Crew crew{.num_threads = job.num_threads,
                  .is_cancelled = job.is_cancelled,
                  .size_of = size_of,
                  .announce = announce};
  auto errors = work_off(job.sources.size(), crew, load);
  if (!errors) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    outcomes[i].error = std::move((*errors)[i]);
  }
  return outcomes;
}

}  // namespace spdl
