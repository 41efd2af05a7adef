// Incremental reading.

#include "media/demuxer.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace spdl {

int Demuxer::start_reading(const std::set<int>& wanted) {
  for (const int index : wanted) {
    stream_type(index);  // which throws for a bad one
  }
  std::set<int> streams;  // that this demuxer reads itself
  stop_reading();
  for (const int index : wanted) {
    if (Demuxer* other = edited(index)) {
      other->start_reading({index});
      reading_edited_.push_back(other);
    } else {
      streams.insert(index);
    }
  }
  if (streams.empty()) {
    return round_;
  }
  for (const int index : streams) {
    if (stream_type(index) == MediaType::kAudio) {
      sound_bounds(index);
    }
  }
  std::unique_ptr<OggChainReader> ogg;
  const int first = *streams.begin();
  if (streams.size() == 1 && ogg_ && stream_type(first) == MediaType::kAudio) {
    OggChainReader trial(input_, first, *ogg_);
    while (trial.next()) {
    }
    if (trial.is_whole()) {
      ogg = std::make_unique<OggChainReader>(input_, first, *ogg_);
    }
  }
  if (!ogg) {
    expect_whole_ogg();
  }
  go_to_start();
  std::map<int, CodecPtr> codecs;
  for (const int index : streams) {
    codecs.emplace(index, codec_of(input_, stream_type(index), index));
  }
  // The first stream of moving pictures, or else the first.
  const auto moves = std::find_if(streams.begin(), streams.end(), [&](int index) {
    return stream_type(index) == MediaType::kVideo && !is_cover(stream(index));
  });
  reading_.emplace(input_, std::move(codecs), moves != streams.end() ? *moves : *streams.begin(), std::move(ogg));
  return round_;
}

void Demuxer::stop_reading() noexcept {
  ++round_;
  reading_.reset();
  reading_edited_.clear();
  started_.clear();
}

std::map<int, Packets> Demuxer::read_some(int round, std::optional<double> duration, std::optional<int> num_packets) {
  if (round != round_ || (!reading_ && reading_edited_.empty())) {
    throw Error(ErrorKind::kMedia, "continue reading",
                "the demuxer was used for something else meanwhile; use one Demuxer for each iterator")
        .in(input_.name());
  }
  std::map<int, Packets> chunk;
  const auto add = [&](int index) -> Packets& {
    return chunk.emplace(index, new_packets(stream_type(index), index)).first->second;
  };
  for (Demuxer* other : reading_edited_) {
    chunk.merge(other->read_some(other->round_, duration, num_packets));
  }
  if (!reading_ || reading_->is_at_end()) {
    return chunk;
  }
  select(reading_->streams());
  for (auto& [index, packets] : reading_->read(input_, duration, num_packets)) {
    Packets& read = add(index);
    read.packets = std::move(packets);
    if (read.type != MediaType::kAudio) {
      continue;
    }
    read.sound = sound_bounds(index);
    if (started_.insert(index).second && !read.packets.empty()) {
      mark_delay(*read.packets.front(), *stream(index).codecpar, read.sound);
    } else {
      read.sound.begins_stream = false;
    }
    if (reading_->is_at_end()) {
      complete_sound_bounds(input_, index, read.sound);
    }
  }
  const int num_errors = input_.take_num_errors();
  if (num_errors > 0 && chunk.empty()) {
    add(reading_->leader());
  }
  for (auto& [index, packets] : chunk) {
    packets.num_errors += num_errors;
  }
  return chunk;
}

}  // namespace spdl
