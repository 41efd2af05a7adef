// Loads sound as models need it: a window of a stream, at any sample rate, number of channels and element type, with
// exactly the samples of the window.
//
// The rule of all windows: sample k of the output rate has the time k / rate and is in the window if start <= time <
// end; sample 0 is the first one that loading everything gives. Samples equal those of resampling the whole stream: the input that a resampler needs before and after the window
// is decoded too, and resampling starts where an input sample and an output sample have the same time.

#pragma once

#include <cstdint>
#include <optional>

#include "av/owners.h"
#include "base/buffer.h"
#include "base/time_window.h"
#include "media/decoder.h"
#include "media/demuxer.h"

namespace spdl {

struct SoundRequest {
  std::optional<TimeWindow> window;         // none: everything
  SoundClock clock = SoundClock::kFirstSample;  // of window and start
  std::optional<double> start;              // in seconds, instead of a window; needs num_samples
  std::optional<double> share;              // instead of a start: its fraction of the range of possible starts, [0, 1)
  std::optional<std::int64_t> num_samples;  // of the result: cut, or padded with silence
  int sample_rate = 0;                      // 0: that of the stream
  int num_channels = 0;                     // 0: those of the stream
  AVSampleFormat format = AV_SAMPLE_FMT_FLTP;  // planar
  std::optional<int> stream;
  DecodeConfig decode;
};

// One row for each channel, `stride` bytes apart.
struct Sound {
  Buffer memory;
  std::size_t stride = 0;
  int num_channels = 0;
  int sample_rate = 0;
  std::int64_t num_samples = 0;  // of each channel
  std::int64_t first = 0;        // index of the first sample among all of the stream
  double start = 0;              // its time, in seconds of the clock
  // Samples that the stream has; the rest is silent padding: `silence_before` samples before them, and the remainder
  // after.
  std::int64_t num_valid = 0;
  std::int64_t silence_before = 0;
};

// Throws Error: kStreamNotFound, kDemux, kDecode, kFilter (resampling is not possible), kConvert (the window has no
// sample); std::bad_alloc; Cancelled.
Sound load_sound(Demuxer& demuxer, const SoundRequest& request);

}  // namespace spdl
