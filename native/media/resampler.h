// A resampler of libswresample that reuses filters computed before.
//
// For a second of sound, computing the filter takes longer than applying it. So each thread keeps the few resamplers
// that it used last. `swr_init` resets one and keeps only the filter. One thread per object.

#pragma once

#include <cstdint>

#include "av/owners.h"

namespace spdl {

class Resampler {
 public:
  struct Side {
    AVChannelLayout& layout;  // not changed
    AVSampleFormat format;
    int rate;
  };

  Resampler() = default;
  ~Resampler() { put_away(); }
  Resampler(const Resampler&) = delete;
  Resampler& operator=(const Resampler&) = delete;

  // Starts a resampler, replacing the previous one. Returns libav's code, negative if it refuses the parameters.
  int start(const Side& in, const Side& out);
  // Null until `start` has succeeded.
  SwrContext* get() const noexcept { return context_.get(); }

  // The parameters that a resampler depends on.
  struct Parameters {
    struct End {
      AVChannelOrder order = AV_CHANNEL_ORDER_UNSPEC;
      int num_channels = 0;
      std::uint64_t mask = 0;
      AVSampleFormat format = AV_SAMPLE_FMT_NONE;
      int rate = 0;

      bool operator==(const End&) const = default;
    };
    End in, out;

    bool operator==(const Parameters&) const = default;
  };

 private:
  void put_away() noexcept;

  av::ResamplerPtr context_;
  Parameters parameters_;
};

}  // namespace spdl
