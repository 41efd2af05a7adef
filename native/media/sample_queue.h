// Regroups samples: takes frames of any length, returns frames of one length.
//
// Owns copies of the samples. One thread per object.

#pragma once

extern "C" {
#include <libavutil/channel_layout.h>
}

#include <cstdint>

#include "av/owners.h"

namespace spdl {

class SampleQueue {
 public:
  // Of the context's sample format, channels and frame size, which must not be 0. The context must outlive the queue.
  explicit SampleQueue(const AVCodecContext& context);

  // `pts`: of the first sample, in samples; used only if the queue is empty, else the samples follow the previous ones.
  void push(const AVFrame& frame, std::int64_t pts);
  void push_silence(int num_samples);

  // Frames of exactly the frame size; null while there are not enough samples.
  av::FramePtr pop();
  // The remaining samples, fewer than the frame size; null if there are none.
  av::FramePtr pop_rest();

  // Number of samples missing for a whole frame; 0 if the queue is empty.
  int num_missing() const noexcept;
  bool empty() const noexcept { return av_audio_fifo_size(samples_.get()) == 0; }

 private:
  av::FramePtr take(int num_samples);

  const AVCodecContext* context_;
  av::AudioFifoPtr samples_;
  std::int64_t pts_ = 0;
};

}  // namespace spdl
