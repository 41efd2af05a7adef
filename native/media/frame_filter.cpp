#include "media/frame_filter.h"

#include <utility>

namespace spdl {

FrameFilter::FrameFilter(ChainInput input, std::optional<std::string> description, std::string source)
    : input_(input), description_(std::move(description)), source_(std::move(source)) {
  if (description_ && input_.type != MediaType::kAudio) {
    if (std::optional<ScaleTarget> target = parse_scale(*description_)) {
      scaler_.emplace(std::move(*target));
    }
  }
}

void FrameFilter::filter(av::FramePtr frame, std::vector<av::FramePtr>& out) {
  if (!description_) {
    if (frame != nullptr) {
      out.push_back(std::move(frame));
    }
    return;
  }
  if (scaler_ && (frame == nullptr || scaler_->takes(*frame))) {
    if (frame != nullptr) {
      out.push_back(scaler_->scale(std::move(frame)));
    }
    return;
  }
  // Formats that libswscale does not know: the graph finds another way, or says why there is none.
  if (!chain_) {
    chain_.emplace(input_, *description_, source_);
  }
  chain_->filter(std::move(frame), out);
}

AVRational FrameFilter::time_base() const noexcept {
  const AVRational of_chain = chain_ ? chain_->time_base() : AVRational{0, 1};
  return of_chain.num > 0 ? of_chain : input_.time_base;
}

}  // namespace spdl
