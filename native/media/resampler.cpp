#include "media/resampler.h"

extern "C" {
#include <libavutil/channel_layout.h>
}

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace spdl {
namespace {

// A filter has up to 1024 phases of 32 taps, and as many times more taps as the rate falls: up to 2 MiB of doubles.
constexpr int kMostDecimation = 8;
constexpr std::size_t kNumKept = 4;

struct Kept {
  Resampler::Parameters parameters;
  av::ResamplerPtr context;
};

thread_local std::array<Kept, kNumKept> kept;  // put away last, first

Resampler::Parameters::End end_of(const Resampler::Side& side) noexcept {
  const std::uint64_t mask = side.layout.order == AV_CHANNEL_ORDER_NATIVE ? side.layout.u.mask : 0;
  return {side.layout.order, side.layout.nb_channels, mask, side.format, side.rate};
}

// Whether the parameters say all about the layout.
bool is_plain(const Resampler::Parameters::End& end) noexcept {
  return end.order == AV_CHANNEL_ORDER_NATIVE || end.order == AV_CHANNEL_ORDER_UNSPEC;
}

}  // namespace

int Resampler::start(const Side& in, const Side& out) {
  put_away();
  parameters_ = {end_of(in), end_of(out)};
  const auto found =
      std::ranges::find_if(kept, [&](const Kept& each) { return each.context && each.parameters == parameters_; });
  av::ResamplerPtr context;
  if (found != kept.end()) {
    context = std::move(found->context);
  } else {
    SwrContext* made = nullptr;
    const int code = swr_alloc_set_opts2(&made, &out.layout, out.format, out.rate, &in.layout, in.format, in.rate, 0,
                                         nullptr);
    context.reset(made);
    if (code < 0) {
      return code;
    }
  }
  const int code = swr_init(context.get());
  if (code >= 0) {
    context_ = std::move(context);
  }
  return code;
}

void Resampler::put_away() noexcept {
  const bool is_kept = context_ && is_plain(parameters_.in) && is_plain(parameters_.out) &&
                       parameters_.in.rate / kMostDecimation <= parameters_.out.rate;
  if (!is_kept) {
    context_.reset();
    return;
  }
  std::ranges::rotate(kept, kept.end() - 1);
  kept.front() = {parameters_, std::move(context_)};
}

}  // namespace spdl
