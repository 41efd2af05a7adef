#include "media/chain_filter.h"

extern "C" {
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/mathematics.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
}

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "media/frames.h"
#include "media/sample_time.h"

namespace spdl {
namespace {

using ParametersPtr = std::unique_ptr<AVBufferSrcParameters, av::FreeByPointer<&av_free>>;

// What a frame says of its format, and nothing of its data.
av::FramePtr format_of(const AVFrame& frame) {
  av::FramePtr format = av::new_frame();
  format->format = frame.format;
  format->width = frame.width;
  format->height = frame.height;
  format->sample_aspect_ratio = frame.sample_aspect_ratio;
  format->colorspace = frame.colorspace;
  format->color_range = frame.color_range;
  format->sample_rate = frame.sample_rate;
  if (av_channel_layout_copy(&format->ch_layout, &frame.ch_layout) < 0) {
    throw std::bad_alloc();
  }
  return format;
}

// A node of that filter, not initialised yet.
AVFilterContext* add_node(AVFilterGraph& graph, const char* filter, const char* name) {
  AVFilterContext* node = avfilter_graph_alloc_filter(&graph, avfilter_get_by_name(filter), name);
  if (node == nullptr) {
    throw std::bad_alloc();
  }
  return node;
}

av::FilterInOutPtr open_end(const char* name, AVFilterContext* node) {
  auto end = av::own<av::FilterInOutPtr>(avfilter_inout_alloc());
  end->name = av_strdup(name);
  end->filter_ctx = node;
  if (end->name == nullptr) {
    throw std::bad_alloc();
  }
  return end;
}

}  // namespace

ChainFilter::ChainFilter(ChainInput input, std::string description, std::string source)
    : input_(input), description_(std::move(description)), source_(std::move(source)) {
  if (description_.find('\0') != std::string::npos) {
    throw Error(ErrorKind::kFilter, action(), "the description contains a null character").in(source_);
  }
}

std::string ChainFilter::action() const {
  return "apply the filter '" + description_ + (source_.empty() ? "'" : "' to");
}

bool ChainFilter::fits(const AVFrame& frame) const noexcept {
  if (frame.format != like_->format) {
    return false;
  }
  if (input_.type == MediaType::kAudio) {
    return frame.sample_rate == like_->sample_rate &&
           av_channel_layout_compare(&frame.ch_layout, &like_->ch_layout) == 0;
  }
  return frame.width == like_->width && frame.height == like_->height &&
         (!av::buffer_takes_colors() ||
          (frame.colorspace == like_->colorspace && frame.color_range == like_->color_range));
}

// A graph that is told colour spaces refuses to convert from those that libswscale does not know, such as YCgCo. Others take
// them for unknown ones, and so does this.
void ChainFilter::make_graph(const AVFrame& first) {
  forgets_matrix_ = false;
  try {
    make_graph(first, first.colorspace);
  } catch (const Error& error) {
    if (!av::buffer_takes_colors() || input_.type == MediaType::kAudio || first.colorspace == AVCOL_SPC_UNSPECIFIED) {
      throw;
    }
    try {
      make_graph(first, AVCOL_SPC_UNSPECIFIED);
      forgets_matrix_ = true;
    } catch (const Error&) {
      throw error;
    }
  }
}

void ChainFilter::make_graph(const AVFrame& first, AVColorSpace matrix) {
  const bool is_audio = input_.type == MediaType::kAudio;
  const av::LogCapture said;
  const auto expect = [&](int code) { av::check(code, ErrorKind::kFilter, action(), source_, said); };

  auto graph = av::own<av::FilterGraphPtr>(avfilter_graph_alloc());
  av::mark_as_ours(*graph);
  // A pipeline has its parallelism elsewhere; a pool of threads for each graph would only get in its way.
  graph->nb_threads = 1;

  AVFilterContext* entry = add_node(*graph, is_audio ? "abuffer" : "buffer", "in");
  const auto parameters = av::own<ParametersPtr>(av_buffersrc_parameters_alloc());
  parameters->format = first.format;
  parameters->time_base = input_.time_base;
  if (is_audio) {
    parameters->sample_rate = first.sample_rate;
    parameters->ch_layout = first.ch_layout;  // copied by the call below
  } else {
    parameters->width = first.width;
    parameters->height = first.height;
    parameters->sample_aspect_ratio = first.sample_aspect_ratio;
    parameters->frame_rate = input_.frame_rate;
    av::set_colors(*parameters, matrix, first.color_range);
  }
  expect(av_buffersrc_parameters_set(entry, parameters.get()));
  expect(avfilter_init_str(entry, nullptr));
  AVFilterContext* exit = add_node(*graph, is_audio ? "abuffersink" : "buffersink", "out");
  if (is_audio) {
    // Nine channels have no layout with a name; where the option is gone, they need none.
    av_opt_set_int(exit, "all_channel_counts", 1, AV_OPT_SEARCH_CHILDREN);
  }
  expect(avfilter_init_str(exit, nullptr));

  // The chain's open output is our output's input, and the other way around.
  AVFilterInOut* outputs = open_end("in", entry).release();
  AVFilterInOut* inputs = open_end("out", exit).release();
  const int code = avfilter_graph_parse_ptr(graph.get(), description_.c_str(), &inputs, &outputs, nullptr);
  const av::FilterInOutPtr rest_of_inputs(inputs);
  const av::FilterInOutPtr rest_of_outputs(outputs);
  expect(code);
  expect(avfilter_graph_config(graph.get(), nullptr));

  make_cuts_exact(*graph);

  like_ = format_of(first);
  graph_ = std::move(graph);
  entry_ = entry;
  exit_ = exit;
  if (time_base_.num == 0) {
    time_base_ = av_buffersink_get_time_base(exit);
  }
}

// By now, such a step has turned its times into samples of the rate that comes to it.
void ChainFilter::make_cuts_exact(AVFilterGraph& graph) const {
  for (unsigned i = 0; i < graph.nb_filters && input_.window; ++i) {
    AVFilterContext* step = graph.filters[i];
    if (std::strcmp(step->filter->name, "atrim") != 0) {
      continue;
    }
    const auto has = [&](const char* option, double seconds) {
      std::int64_t microseconds = 0;
      return av_opt_get_int(step, option, AV_OPT_SEARCH_CHILDREN, &microseconds) >= 0 &&
             (std::abs(static_cast<double>(microseconds) - seconds * 1e6) <= 1 ||
              (microseconds == INT64_MAX && seconds * 1e6 >= static_cast<double>(INT64_MAX)));
    };
    if (has("start", input_.window->start) && has("end", input_.window->end)) {
      const SampleSpan span = samples_in(*input_.window, step->inputs[0]->sample_rate);
      av_opt_set_int(step, "start_pts", span.first, AV_OPT_SEARCH_CHILDREN);
      av_opt_set_int(step, "end_pts", span.end, AV_OPT_SEARCH_CHILDREN);
    }
  }
}

void ChainFilter::give(AVFrame& frame) {
  const av::LogCapture said;
  end_of_last_ = end_of(frame, input_.time_base, input_.frame_rate);
  if (forgets_matrix_) {
    frame.colorspace = AVCOL_SPC_UNSPECIFIED;
  }
  const int code = av_buffersrc_add_frame_flags(entry_, &frame, 0);
  if (code < 0 && code != AVERROR_EOF) {  // the latter: the filter has all that it wants
    av::check(code, ErrorKind::kFilter, action(), source_, said);
  }
}

void ChainFilter::end() {
  const av::LogCapture said;
  // Filters that give each frame a duration, such as fps, use the end time.
  const int code = av_buffersrc_close(entry_, end_of_last_, 0);
  if (code < 0 && code != AVERROR_EOF) {
    av::check(code, ErrorKind::kFilter, action(), source_, said);
  }
}

void ChainFilter::take_ready(std::vector<av::FramePtr>& out) {
  // Generous for filters that hold all back or repeat it, and for those that fill gaps.
  const std::int64_t most = 65536 + 100 * num_given_;
  const AVRational time_base = av_buffersink_get_time_base(exit_);
  const bool is_rescaled = av_cmp_q(time_base, time_base_) != 0;
  const av::LogCapture said;
  for (std::int64_t num_taken = 0;; ++num_taken) {
    if (spare_ == nullptr) {
      spare_ = av::new_frame();
    }
    const int code = av_buffersink_get_frame(exit_, spare_.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
      return;
    }
    if (code < 0) {
      av::check(code, ErrorKind::kFilter, action(), source_, said);
    }
    av::FramePtr frame = std::move(spare_);
    if (num_taken >= most) {
      throw Error(ErrorKind::kFilter, action(),
                  "it went on for " + std::to_string(num_taken) +
                      " frames without new input: what pads or repeats without end, such as apad, tpad or loop, needs a"
                      " trim after it")
          .in(source_);
    }
    if (is_rescaled && frame->pts != AV_NOPTS_VALUE) {
      frame->pts = av_rescale_q(frame->pts, time_base, time_base_);
    }
    out.push_back(std::move(frame));
  }
}

void ChainFilter::filter(av::FramePtr frame, std::vector<av::FramePtr>& out) {
  if (frame == nullptr) {
    if (graph_ != nullptr) {
      end();
      take_ready(out);
    }
    return;
  }
  if (graph_ != nullptr && !fits(*frame)) {
    end();
    take_ready(out);
    graph_.reset();
  }
  if (graph_ == nullptr) {
    make_graph(*frame);
  }
  ++num_given_;
  give(*frame);
  take_ready(out);
}

}  // namespace spdl
