#include "jpeg/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/file.h"
#include "base/memory_budget.h"
#include "base/scratch.h"
#include "base/sniff.h"
#include "base/thread.h"
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

Error out_of_memory() { return Error(ErrorKind::kDecode, "decode", "out of memory"); }

using Clock = std::chrono::steady_clock;

// What the threads of a call share: which source is next, whether to leave the rest, and how many helpers work.
struct Progress {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> is_over = false;
  std::mutex lock;
  std::condition_variable helper_ended;
  int num_helpers = 0;     // under the lock
  std::exception_ptr bug;  // under the lock: a broken invariant, which is no failure of a source
};

// Until the helpers have ended. One may wait for a pipe, and Ctrl-C is for the caller's thread alone.
void wait_for_helpers(Progress& progress, const std::function<bool()>& is_cancelled) {
  std::unique_lock held(progress.lock);
  while (!progress.helper_ended.wait_for(held, kPatience, [&] { return progress.num_helpers == 0; })) {
    held.unlock();
    if (!progress.is_over && is_cancelled()) {
      progress.is_over = true;
    }
    held.lock();
  }
}

template <class AfterEach>
void work(const Job& job, Progress& progress, std::vector<Outcome>& outcomes, AfterEach after_each) {
  Scratch<Workspace> workspace;
  while (!progress.is_over) {
    const std::size_t i = progress.next++;
    if (i >= job.sources.size()) {
      return;
    }
    Outcome& outcome = outcomes[i];
    try {
      const ImageRequest request{job.transform, job.seeds.empty() ? 0 : job.seeds[i],
                                 job.replay.empty() ? nullptr : &job.replay[i], job.max_pixels};
      outcome.plan = load_one(job.sources[i], request, job.fallback, job.slots[i], *workspace);
    } catch (const Error& error) {
      outcome.error = error;
    } catch (const std::bad_alloc&) {
      outcome.error = out_of_memory();
    } catch (const NeedsFallback&) {
      progress.is_over = true;
    } catch (const Cancelled&) {
      progress.is_over = true;
    } catch (const std::logic_error&) {
      const std::lock_guard held(progress.lock);
      progress.bug = std::current_exception();
      progress.is_over = true;
    } catch (const std::exception& error) {
      outcome.error = Error(ErrorKind::kDecode, "decode", std::string("a library failed: ") + error.what());
    } catch (...) {
      outcome.error = Error(ErrorKind::kDecode, "decode", "a library failed with an unknown exception");
    }
    outcome.is_settled = true;
    workspace->trim();
    after_each();
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
  Progress progress;
  {
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(job.num_threads, 1)), job.sources.size());
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    try {
      for (std::size_t i = 1; i < wanted; ++i) {
        const std::lock_guard held(progress.lock);
        helpers.push_back(start_thread([&] {
          try {
            const CancellationScope scope([&] { return progress.is_over.load(); });
            work(job, progress, outcomes, [] {});
          } catch (...) {
            // There was no memory for its workspace, or for the words of an error. What it left is not settled.
          }
          const std::lock_guard counting(progress.lock);
          --progress.num_helpers;
          progress.helper_ended.notify_one();
        }));
        ++progress.num_helpers;
      }
    } catch (const std::exception&) {
      // The system has no more threads, or no memory for one: those there are do the work.
    }
    const CancellationScope scope([&] { return progress.is_over || job.is_cancelled(); });
    auto asked = Clock::now();
    work(job, progress, outcomes, [&] {
      if (Clock::now() - asked > kPatience) {
        progress.is_over = progress.is_over || job.is_cancelled();
        asked = Clock::now();
      }
    });
    if (wanted > 1) {
      wait_for_helpers(progress, job.is_cancelled);
    }
  }
  if (progress.bug) {
    std::rethrow_exception(progress.bug);
  }
  if (progress.is_over) {
    return std::nullopt;
  }
  for (Outcome& outcome : outcomes) {
    if (!outcome.is_settled) {
      outcome.error = out_of_memory();
    }
  }
  return outcomes;
}

}  // namespace spdl
