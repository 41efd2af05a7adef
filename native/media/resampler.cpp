#include "media/resampler.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

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

// One channel is the mean of all, and each of several is a copy of a single one. The others are mixed as FFmpeg does it, but for
// floats with the gains that it takes for integers, which cannot exceed full scale: then all sample formats agree.
int set_mixing(SwrContext* context, const Resampler::Side& in, const Resampler::Side& out) {
  const int num_in = in.layout.nb_channels;
  const int num_out = out.layout.nb_channels;
  if (num_in == num_out) {
    return 0;
  }
  if (num_in != 1 && num_out != 1) {
    return av_opt_set_double(context, "rematrix_maxval", 1.0, 0);
  }
  const std::vector<double> gains(static_cast<std::size_t>(num_in) * static_cast<std::size_t>(num_out), 1.0 / num_in);
  return swr_set_matrix(context, gains.data(), num_in);
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
    if (const int mixing = set_mixing(context.get(), in, out); mixing < 0) {
      return mixing;
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
