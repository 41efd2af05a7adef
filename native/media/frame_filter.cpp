#include "media/frame_filter.h"

#include <utility>

#include "media/planar_floats.h"

namespace spdl {

FrameFilter::FrameFilter(ChainInput input, std::optional<std::string> description, std::string source)
    : input_(input), description_(std::move(description)), source_(std::move(source)) {
  if (!description_) {
    return;
  }
  if (input_.type == MediaType::kAudio) {
    wants_planar_floats_ = asks_for_planar_floats(*description_);
  } else if (std::optional<ScaleTarget> target = parse_scale(*description_)) {
    scaler_.emplace(std::move(*target));
  }
}

void FrameFilter::filter(av::FramePtr frame, std::vector<av::FramePtr>& out) {
  if (!description_) {
    if (frame != nullptr) {
      out.push_back(std::move(frame));
    }
    return;
  }
  if (frame == nullptr) {
    if (chain_) {
      chain_->filter(nullptr, out);
    }
    return;
  }
  if (scaler_ && scaler_->takes(*frame)) {
    out.push_back(scaler_->scale(std::move(frame)));
    return;
  }
  if (wants_planar_floats_ && can_be_planar_floats(*frame)) {
    out.push_back(to_planar_floats(std::move(frame)));
    return;
  }
  // For formats that cannot go the short way, the graph finds another one, or says why there is none.
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
