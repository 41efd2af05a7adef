#include "media/still.h"

extern "C" {
#include <libavformat/avio.h>
}

#include <algorithm>
#include <new>
#include <utility>

#include "av/check.h"
#include "base/file.h"
#include "base/own_call.h"
#include "base/scratch.h"
#include "base/sniff.h"
#include "base/watch.h"
#include "image/header.h"
#include "image/orientation.h"
#include "image/renderer.h"
#include "media/planes.h"
#include "media/source_io.h"
#include "media/still_decoder.h"

namespace spdl {
namespace {

struct Workspace {
  PlaneMaker planes;
  Renderer renderer;

  void trim() noexcept {
    planes.trim(kKeepBytes);
    renderer.trim(kKeepBytes);
  }
};

Plan draw(const ImageSource& source, std::span<const std::uint8_t> data, const ImageRequest& request,
          std::uint8_t* slot, Workspace& workspace) {
  const Still still = decode_still(source, data, request.max_pixels);
  const av::FramePtr& frame = still.frame;
  if (frame->format == AV_PIX_FMT_BGRA && has_padding_for_alpha(sniff_format(data), data)) {
    frame->format = AV_PIX_FMT_BGR0;
  }
  const auto orientation = static_cast<Orientation>(request.transform.orient ? stored_orientation(data) : 1);
  const bool swaps = swaps_sides(orientation);
  const Plan plan = request.plan(swaps ? frame->width : frame->height, swaps ? frame->height : frame->width);
  const Picture picture = workspace.planes.make(*frame, planes_wanted(request.transform, plan));
  workspace.renderer.render(picture, orientation, plan, request.transform, slot);
  workspace.trim();  // while the lease is held
  return plan;
}

class FfmpegLoader final : public FallbackLoader {
 public:
  std::optional<Error> read(const std::string& url, Buffer& into, std::span<const std::uint8_t>& data,
                            const std::function<bool()>& is_cancelled) const override {
    const OwnCall call;
    try {
      const CancellationScope scope(is_cancelled);
      data = read_url(url, into, std::nullopt);
    } catch (const Error& error) {
      return error;
    } catch (const Cancelled& cancelled) {
      return Error(ErrorKind::kMedia, "open", cancelled.what());
    }
    return std::nullopt;
  }

  std::optional<Error> load(const ImageSource& source, std::span<const std::uint8_t> data, const ImageRequest& request,
                            std::uint8_t* slot, Plan& plan) const override {
    const OwnCall call;
    Scratch<Workspace> workspace;
    std::optional<Error> failure;
    try {
      plan = draw(source, data, request, slot, *workspace);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::bad_alloc&) {
      failure = Error(ErrorKind::kDecode, "decode", "out of memory");
    }
    workspace->trim();
    return failure;
  }
};

}  // namespace

Bytes read_url(const std::string& url, Buffer& into, std::optional<double> timeout) {
  if (url.starts_with("file:")) {
    return read_file(url.substr(5), into, timeout);
  }
  Watch watch(timeout);
  av::Dictionary options({});
  const UrlPtr io = open_url(url, watch, options, {});
  std::size_t room = std::size_t{1} << 16;
  std::size_t size = 0;
  into.reserve(room);
  while (true) {
    const auto wanted = static_cast<int>(std::min<std::size_t>(room - size, std::size_t{1} << 20));
    const int got = avio_read(io.get(), into.data() + size, wanted);
    watch.throw_if_over("open");
    if (got == AVERROR_EOF || got == 0) {
      break;
    }
    size += static_cast<std::size_t>(av::check(got, ErrorKind::kOpen, "open"));
    if (size > kMaxEncodedBytes) {
      throw Error(ErrorKind::kOpen, "open",
                  "it is larger than the " + std::to_string(kMaxEncodedBytes) + " bytes that a picture may have");
    }
    if (size == room) {
      Buffer larger(2 * room);
      std::copy_n(into.data(), size, larger.data());
      into = std::move(larger);
      room *= 2;
    }
  }
  if (size == 0) {
    throw Error(ErrorKind::kOpen, "open", "it is empty");
  }
  return {into.data(), size};
}

const FallbackLoader& fallback_loader() noexcept {
  static const FfmpegLoader loader;
  return loader;
}

}  // namespace spdl
