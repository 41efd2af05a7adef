// One owner type for each kind of libav object. Nothing else in the tree frees them. Moving is free; copying is
// `clone`, which shares the data (libav counts references) and owns the rest. One thread per object; two clones may be
// used by two threads.

#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavfilter/avfilter.h>
#include <libavformat/avformat.h>
#include <libavutil/audio_fifo.h>
#include <libavutil/buffer.h>
#include <libavutil/dict.h>
#include <libavutil/frame.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <new>

namespace spdl::av {

template <auto Free>
struct FreeByAddress {
  template <class T>
  void operator()(T* pointer) const noexcept {
    Free(&pointer);
  }
};

template <auto Free>
struct FreeByPointer {
  template <class T>
  void operator()(T* pointer) const noexcept {
    Free(pointer);
  }
};

using PacketPtr = std::unique_ptr<AVPacket, FreeByAddress<&av_packet_free>>;
using FramePtr = std::unique_ptr<AVFrame, FreeByAddress<&av_frame_free>>;
using CodecContextPtr = std::unique_ptr<AVCodecContext, FreeByAddress<&avcodec_free_context>>;
using CodecParametersPtr = std::unique_ptr<AVCodecParameters, FreeByAddress<&avcodec_parameters_free>>;
using ParserPtr = std::unique_ptr<AVCodecParserContext, FreeByPointer<&av_parser_close>>;
using BsfPtr = std::unique_ptr<AVBSFContext, FreeByAddress<&av_bsf_free>>;
using FilterGraphPtr = std::unique_ptr<AVFilterGraph, FreeByAddress<&avfilter_graph_free>>;
using FilterInOutPtr = std::unique_ptr<AVFilterInOut, FreeByAddress<&avfilter_inout_free>>;
using BufferRefPtr = std::unique_ptr<AVBufferRef, FreeByAddress<&av_buffer_unref>>;
using InputPtr = std::unique_ptr<AVFormatContext, FreeByAddress<&avformat_close_input>>;
using AudioFifoPtr = std::unique_ptr<AVAudioFifo, FreeByPointer<&av_audio_fifo_free>>;
using ResamplerPtr = std::unique_ptr<SwrContext, FreeByAddress<&swr_free>>;
using ScalerPtr = std::unique_ptr<SwsContext, FreeByPointer<&sws_freeContext>>;

// Closes the file that a muxer writes to, which the context does not own; with AVFMT_FLAG_CUSTOM_IO other code closes
// it. Unflushed data is dropped.
struct CloseOutput {
  void operator()(AVFormatContext* context) const noexcept {
    if (((context->flags & AVFMT_FLAG_CUSTOM_IO) | (context->oformat->flags & AVFMT_NOFILE)) == 0) {
      avio_closep(&context->pb);
    }
    avformat_free_context(context);
  }
};
using OutputPtr = std::unique_ptr<AVFormatContext, CloseOutput>;

// Takes over the result of a libav allocation; throws std::bad_alloc if it is null.
template <class Owner, class T>
Owner own(T* pointer) {
  if (pointer == nullptr) {
    throw std::bad_alloc();
  }
  return Owner(pointer);
}

inline PacketPtr new_packet() { return own<PacketPtr>(av_packet_alloc()); }
inline FramePtr new_frame() { return own<FramePtr>(av_frame_alloc()); }
inline PacketPtr clone(const AVPacket& packet) { return own<PacketPtr>(av_packet_clone(&packet)); }
inline FramePtr clone(const AVFrame& frame) { return own<FramePtr>(av_frame_clone(&frame)); }

}  // namespace spdl::av
