// Pictures that are presented as an edit list says, where libav does not follow it.

#include "media/demuxer.h"

#include <string_view>
#include <utility>

#include "media/mp4_edits.h"

namespace spdl {
namespace {

// Whether libav has left out packets. Those that it marks to be dropped are decoded, so that what follows is right.
bool lacks_packets(AVStream& stream) noexcept {
  return stream.nb_frames > 0 && avformat_index_get_entries_count(&stream) != stream.nb_frames;
}

}  // namespace

Demuxer::Demuxer(Input input, int edited_stream, EditList edits)
    : input_(std::move(input)), edited_stream_(edited_stream), edits_(std::move(edits)) {
  starts_.assign(static_cast<std::size_t>(num_streams()), 0);
  starts_[static_cast<std::size_t>(edited_stream)] = edits_->start();
}

TimeWindow Demuxer::edited_extent() const {
  const AVStream& from = stream(edited_stream_);
  const std::int64_t media_end = from.duration > 0 ? from.duration : 0;
  const std::int64_t end = edits_->end().value_or(edits_->presented_at(media_end));
  return {to_seconds(edits_->start(), from.time_base.num, from.time_base.den),
          to_seconds(end, from.time_base.num, from.time_base.den)};
}

Demuxer* Demuxer::edited(int index) {
  const AVStream& of = stream(index);
  if (edited_stream_ >= 0 || of.codecpar->codec_type != AVMEDIA_TYPE_VIDEO || is_cover(of) ||
      !std::string_view(input_.context().iformat->name).starts_with("mov") || !input_.follows_edits()) {
    return nullptr;
  }
  const auto found = edited_.find(index);
  if (found != edited_.end()) {
    return found->second.get();
  }
  std::unique_ptr<Demuxer> made;
  const std::optional<Mp4Track> track = read_mp4_track(input_, stream(index));
  // libav presents one part right, but for pictures that recover bit by bit and begin before it.
  const bool may_recover = track && track->edit && track->edit->media_time > 0 &&
                           of.codecpar->codec_id == AV_CODEC_ID_H264 && !track->is_fragmented && lacks_packets(stream(index));
  if (track && (track->has_more_edits || may_recover || track->has_other_speed())) {
    std::optional<EditList> edits = EditList::of(*track);
    if (!edits) {
      throw Error(ErrorKind::kDemux, "demux",
                  "its edit list presents parts of the media again, in another order or at another speed, which is not"
                  " supported: encode it as it is presented, with a program that follows such lists, or read all of its"
                  " media with the option ignore_editlist=1")
          .in(input_.name())
          .at(index, {});
    }
    made.reset(new Demuxer(input_.with_edits(index, *edits), index, *edits));
  }
  return edited_.emplace(index, std::move(made)).first->second.get();
}

}  // namespace spdl
