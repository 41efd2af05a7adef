#include "media/filter_graph.h"

extern "C" {
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/mathematics.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "av/check.h"
#include "av/compat.h"
#include "av/log.h"
#include "av/names.h"

namespace spdl {
namespace {

constexpr std::int64_t kMostBeyond = 256;
constexpr std::int64_t kMostForEach = 16;

bool is_a(const AVFilterContext& node, std::string_view filter) { return node.filter->name == filter; }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

std::string adding_to(const AVFilterContext& input, const std::string& source) {
  return std::string("add to ") + input.name + (source.empty() ? " frames" : " the frames of");
}

std::string format_text(int width, int height, int format) {
  return std::to_string(width) + "x" + std::to_string(height) + " " + av::pixel_format_name(format);
}

std::string format_text(int sample_rate, const AVChannelLayout& layout, int format) {
  return std::to_string(sample_rate) + " Hz " + av::channel_layout_name(layout) + " " + av::sample_format_name(format);
}

}  // namespace

FilterGraph::FilterGraph(std::string description)
    : description_(std::move(description)), graph_(av::own<av::FilterGraphPtr>(avfilter_graph_alloc())) {
  // A pipeline has its parallelism elsewhere; a pool of threads for each graph would only get in its way.
  graph_->nb_threads = 1;
  av::mark_as_ours(*graph_);
  const av::LogCapture said;
  const std::string making = action("make");
  if (description_.find('\0') != std::string::npos) {
    throw Error(ErrorKind::kFilter, making, "the description contains a null character");
  }
  av::check(avfilter_graph_parse_ptr(graph_.get(), description_.c_str(), nullptr, nullptr, nullptr), ErrorKind::kFilter,
            making, {}, said);
  av::check(avfilter_graph_config(graph_.get(), nullptr), ErrorKind::kFilter, making, {}, said);
  for (unsigned i = 0; i < graph_->nb_filters; ++i) {
    AVFilterContext* node = graph_->filters[i];
    if (is_a(*node, "buffer") || is_a(*node, "abuffer")) {
      inputs_.push_back(node);
      ends_.push_back(AV_NOPTS_VALUE);
    } else if (is_a(*node, "buffersink") || is_a(*node, "abuffersink")) {
      outputs_.push_back(node);
    }
  }
}

std::string FilterGraph::action(const char* verb) const {
  return std::string(verb) + " the filter graph '" + description_ + "'";
}

std::vector<std::string> FilterGraph::names_of(const Nodes& nodes) {
  std::vector<std::string> names;
  for (const AVFilterContext* node : nodes) {
    names.emplace_back(node->name);
  }
  return names;
}

AVFilterContext& FilterGraph::find(const Nodes& nodes, const Key& key, const char* role) const {
  if (!key) {
    if (nodes.size() == 1) {
      return *nodes.front();
    }
    const std::string which = std::string("use the ") + role + " of the filter graph '" + description_ + "'";
    throw Error(ErrorKind::kFilter, which,
                nodes.empty() ? std::string("it has none")
                              : std::string("Key must be provided when there are multiple ") + role +
                                    "s. Available values are " + listed(names_of(nodes)));
  }
  for (AVFilterContext* node : nodes) {
    if (*key == node->name) {
      return *node;
    }
  }
  throw Error(ErrorKind::kUnknownNode, std::string("find the ") + role + " '" + *key + "'",
              std::string("the ") + role + "s of the filter graph are " + listed(names_of(nodes)));
}

void FilterGraph::expect_fit(const Frames& frames, const AVFilterContext& input) const {
  const auto refuse = [&](const std::string& declared, const std::string& got) {
    throw Error(ErrorKind::kFilter, adding_to(input, frames.source),
                "it is declared for " + declared + ", the frames are " + got)
        .in(frames.source);
  };
  const bool takes_audio = is_a(input, "abuffer");
  const bool is_audio = frames.type == MediaType::kAudio;
  if (takes_audio != is_audio) {
    refuse(takes_audio ? "audio" : "video", name_of(frames.type));
  }
  const AVFilterLink& link = *input.outputs[0];
  for (const av::FramePtr& frame : frames.frames) {
    if (is_audio) {
      if (frame->format != link.format || frame->sample_rate != link.sample_rate ||
          av_channel_layout_compare(&frame->ch_layout, &link.ch_layout) != 0) {
        refuse(format_text(link.sample_rate, link.ch_layout, link.format),
               format_text(frame->sample_rate, frame->ch_layout, frame->format));
      }
    } else if (frame->format != link.format || frame->width != link.w || frame->height != link.h) {
      refuse(format_text(link.w, link.h, link.format), format_text(frame->width, frame->height, frame->format));
    }
  }
}

void FilterGraph::add_frames(Frames frames, const Key& key) {
  AVFilterContext& input = find(inputs_, key, "input");
  if (is_flushed_) {
    throw Error(ErrorKind::kFilter, adding_to(input, frames.source),
                "the graph was flushed; make another one for more frames")
        .in(frames.source);
  }
  expect_fit(frames, input);
  source_ = frames.source;
  const AVRational time_base = input.outputs[0]->time_base;
  const bool is_rescaled = frames.time_base.num > 0 && av_cmp_q(frames.time_base, time_base) != 0;
  AVRational frame_rate{0, 1};  // stays so for audio, which has no such option
  av_opt_get_q(&input, "frame_rate", AV_OPT_SEARCH_CHILDREN, &frame_rate);
  const auto place = std::find(inputs_.begin(), inputs_.end(), &input) - inputs_.begin();
  std::int64_t& end = ends_[static_cast<std::size_t>(place)];
  const av::LogCapture said;
  for (const av::FramePtr& frame : frames.frames) {
    if (is_rescaled && frame->pts != AV_NOPTS_VALUE) {
      frame->pts = av_rescale_q(frame->pts, frames.time_base, time_base);
      av::set_frame_duration(*frame, av_rescale_q(av::frame_duration(*frame), frames.time_base, time_base));
    }
    end = end_of(*frame, time_base, frame_rate);
    const int code = av_buffersrc_add_frame_flags(&input, frame.get(), 0);
    if (code == AVERROR_EOF) {
      return;  // the graph has all that it wants of this input
    }
    if (code < 0) {
      av::check(code, ErrorKind::kFilter, adding_to(input, frames.source), frames.source, said);
    }
    ++num_given_;
  }
}

std::optional<Frames> FilterGraph::get_frames(const Key& key) {
  AVFilterContext& output = find(outputs_, key, "output");
  Frames frames;
  frames.type = is_a(output, "abuffersink") ? MediaType::kAudio : MediaType::kVideo;
  frames.source = source_;
  frames.time_base = av_buffersink_get_time_base(&output);
  const av::LogCapture said;
  for (std::int64_t i = 0; i < kMostBeyond + kMostForEach * num_given_; ++i) {
    av::FramePtr frame = av::new_frame();
    const int code = av_buffersink_get_frame(&output, frame.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
      break;
    }
    if (code < 0) {
      av::check(code, ErrorKind::kFilter, action("run"), source_, said);
    }
    frames.frames.push_back(std::move(frame));
  }
  if (frames.frames.empty()) {
    return std::nullopt;
  }
  return frames;
}

void FilterGraph::flush() {
  if (is_flushed_) {
    return;
  }
  is_flushed_ = true;
  const av::LogCapture said;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    // Filters that give each frame a duration, such as fps, use the end time.
    const int code = av_buffersrc_close(inputs_[i], ends_[i], 0);
    if (code < 0 && code != AVERROR_EOF) {
      av::check(code, ErrorKind::kFilter, action("flush"), source_, said);
    }
  }
}

std::string FilterGraph::dump() const {
  const std::unique_ptr<char, av::FreeByPointer<&av_free>> text(avfilter_graph_dump(graph_.get(), nullptr));
  return text ? text.get() : "";
}

}  // namespace spdl
