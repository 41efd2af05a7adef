#include "media/sample_queue.h"

#include "av/check.h"

namespace spdl {
namespace {

constexpr const char* kAction = "regroup samples for the encoder";

av::FramePtr new_samples(const AVCodecContext& context, int num_samples) {
  auto frame = av::new_frame();
  frame->format = context.sample_fmt;
  frame->sample_rate = context.sample_rate;
  frame->nb_samples = num_samples;
  av::check(av_channel_layout_copy(&frame->ch_layout, &context.ch_layout), ErrorKind::kEncode, kAction);
  av::check(av_frame_get_buffer(frame.get(), 0), ErrorKind::kEncode, kAction);
  return frame;
}

void write(AVAudioFifo& fifo, const AVFrame& frame) {
  av::check(av_audio_fifo_write(&fifo, reinterpret_cast<void**>(frame.extended_data), frame.nb_samples),
            ErrorKind::kEncode, kAction);
}

}  // namespace

SampleQueue::SampleQueue(const AVCodecContext& context)
    : context_(&context),
      samples_(av::own<av::AudioFifoPtr>(
          av_audio_fifo_alloc(context.sample_fmt, context.ch_layout.nb_channels, context.frame_size))) {}

void SampleQueue::push(const AVFrame& frame, std::int64_t pts) {
  if (empty()) {
    pts_ = pts;
  }
  write(*samples_, frame);
}

void SampleQueue::push_silence(int num_samples) {
  const auto silence = new_samples(*context_, num_samples);
  av_samples_set_silence(silence->extended_data, 0, num_samples, context_->ch_layout.nb_channels,
                         context_->sample_fmt);
  write(*samples_, *silence);
}

av::FramePtr SampleQueue::pop() {
  return av_audio_fifo_size(samples_.get()) < context_->frame_size ? nullptr : take(context_->frame_size);
}

av::FramePtr SampleQueue::pop_rest() { return empty() ? nullptr : take(av_audio_fifo_size(samples_.get())); }

int SampleQueue::num_missing() const noexcept {
  return empty() ? 0 : context_->frame_size - av_audio_fifo_size(samples_.get());
}

av::FramePtr SampleQueue::take(int num_samples) {
  auto frame = new_samples(*context_, num_samples);
  av::check(av_audio_fifo_read(samples_.get(), reinterpret_cast<void**>(frame->extended_data), num_samples),
            ErrorKind::kEncode, kAction);
  frame->pts = pts_;
  pts_ += num_samples;
  return frame;
}

}  // namespace spdl
