#include "shared/sender.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "shared/process.h"

namespace spdl {

Sender::Sender(std::shared_ptr<Area> area)
    : area_(std::move(area)),
      generation_(fork_generation()),
      file_(std::make_shared<const AnonymousFile>(area_->file().duplicate())),
      allocator_(round_up(area_->size(), Allocator::kUnit)),
      blocks_(area_->num_blocks()),
      is_reserved_((area_->size() + kChunk - 1) / kChunk) {
  free_blocks_.reserve(blocks_.size());
  for (std::uint32_t block = area_->num_blocks(); block-- > 0;) {
    free_blocks_.push_back(block);
  }
}

bool Sender::put(std::span<const Bytes> buffers, std::span<Span> spans) {
  if (generation_ != fork_generation()) {
    return false;
  }
  Ranges unreserved;
  bool has_room = true;
  std::size_t num_placed = 0;
  {
    const std::lock_guard lock(mutex_);
    end_window();
    collect();
    while (has_room && num_placed < buffers.size()) {
      has_room = has_room_for(buffers[num_placed], spans[num_placed], unreserved);
      num_placed += has_room ? 1 : 0;
    }
    peak_ = std::max(peak_, allocator_.num_bytes_used());
  }
  if (!has_room || !reserve(unreserved)) {
    take_back(spans.first(num_placed));
    return false;
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::uint8_t* to = area_->data() + spans[i].offset;
    if (!buffers[i].empty() && to != buffers[i].data()) {
      std::memcpy(to, buffers[i].data(), buffers[i].size());
    }
  }
  return true;
}

void Sender::take_back(std::span<const Span> spans) noexcept {
  for (const Span& span : spans) {
    if (span.block < area_->num_blocks()) {
      area_->drop(span.block);
    }
  }
}

std::optional<Span> Sender::slot(std::size_t size) {
  if (generation_ != fork_generation()) {
    return std::nullopt;
  }
  Ranges unreserved;
  Span span;
  {
    const std::lock_guard lock(mutex_);
    end_window();
    collect();
    if (!take(size, true, span, unreserved)) {
      return std::nullopt;
    }
    peak_ = std::max(peak_, allocator_.num_bytes_used());
  }
  if (!reserve(unreserved)) {
    area_->drop(span.block);
    return std::nullopt;
  }
  return span;
}

void Sender::collect() {
  area_->collect([this](std::uint32_t block) { free_block(block); });
}

void Sender::free_block(std::uint32_t block) {
  Block& freed = blocks_[block];
  if (freed.size == 0) {
    return;  // the other side has changed a count that it must not change
  }
  allocator_.give_back(freed.offset, freed.size);
  if (freed.is_slot) {
    slots_.erase(freed.offset);
  }
  freed = {};
  free_blocks_.push_back(block);
}

bool Sender::has_room_for(Bytes bytes, Span& span, Ranges& unreserved) {
  if (bytes.empty()) {
    span = {.block = area_->num_blocks(), .offset = 0, .size = 0};
    return !is_closed();
  }
  if (!slots_.empty() && area_->has(bytes.data(), bytes.size())) {
    const auto offset = static_cast<std::size_t>(bytes.data() - area_->data());
    auto slot = slots_.upper_bound(offset);
    if (slot != slots_.begin()) {
      --slot;
      const Block& block = blocks_[slot->second];
      if (offset + bytes.size() <= block.offset + block.size) {
        area_->add(slot->second);
        span = {.block = slot->second, .offset = offset, .size = bytes.size()};
        return true;
      }
    }
  }
  return take(bytes.size(), false, span, unreserved);
}

bool Sender::take(std::size_t size, bool is_slot, Span& span, Ranges& unreserved) {
  if (free_blocks_.empty() || size > area_->size() || is_closed()) {
    return false;
  }
  const std::size_t whole = round_up(size, Allocator::kUnit);
  const std::optional<std::size_t> offset = allocator_.take(whole);
  if (!offset) {
    return false;
  }
  const std::uint32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  blocks_[block] = {.offset = *offset, .size = whole, .is_slot = is_slot};
  if (is_slot) {
    slots_.emplace(*offset, block);
  }
  area_->add(block);
  span = {.block = block, .offset = *offset, .size = size};
  find_unreserved(blocks_[block], unreserved);
  return true;
}

std::size_t Sender::chunk_size(std::size_t chunk) const noexcept {
  return std::min(kChunk, area_->size() - chunk * kChunk);
}

void Sender::find_unreserved(const Block& block, Ranges& unreserved) const {
  const std::size_t last = std::min((block.offset + block.size - 1) / kChunk, is_reserved_.size() - 1);
  for (std::size_t chunk = block.offset / kChunk; chunk <= last; ++chunk) {
    if (is_reserved_[chunk]) {
      continue;
    }
    const Range range{chunk * kChunk, chunk_size(chunk)};
    if (!unreserved.empty() && unreserved.back().offset + unreserved.back().size == range.offset) {
      unreserved.back().size += range.size;
    } else if (unreserved.empty() || unreserved.back().offset + unreserved.back().size <= range.offset ||
               range.offset < unreserved.back().offset) {
      unreserved.push_back(range);
    }
  }
}

// Two threads may reserve the same chunk, which does no harm. A chunk with a block in it is never given back.
bool Sender::reserve(const Ranges& ranges) {
  if (ranges.empty()) {
    return true;
  }
  std::shared_ptr<const AnonymousFile> file;
  {
    const std::lock_guard lock(mutex_);
    file = file_;
  }
  if (file == nullptr) {
    return false;
  }
  for (const Range& range : ranges) {
    const std::size_t start = area_->data_offset() + range.offset;
    if (file->reserve(start, range.size) != 0) {
      return false;
    }
#ifdef MADV_POPULATE_WRITE
    // Page tables in one go: a fault for each page costs several times as much. Advice, from Linux 5.14 on.
    (void)::madvise(area_->data() + range.offset, range.size, MADV_POPULATE_WRITE);
#endif
    const std::lock_guard lock(mutex_);
    for (std::size_t chunk = range.offset / kChunk; chunk * kChunk < range.offset + range.size; ++chunk) {
      num_bytes_reserved_ += is_reserved_[chunk] ? 0 : chunk_size(chunk);
      is_reserved_[chunk] = true;
    }
  }
  return true;
}

void Sender::end_window() noexcept {
  if (++num_puts_ < kWindow || is_closed()) {
    return;
  }
  // A quarter more than was needed, and some for small needs: growing costs more than keeping.
  const std::size_t needed = std::max(peak_, peak_before_);
  const std::size_t kept = needed + needed / 4 + 16 * kChunk;
  if (num_bytes_reserved_ > 2 * kept) {
    give_back_down_to(kept);
  }
  num_puts_ = 0;
  peak_before_ = peak_;
  peak_ = allocator_.num_bytes_used();
}

void Sender::give_back_down_to(std::size_t num_bytes) noexcept {
  allocator_.visit_holes([&](std::size_t offset, std::size_t size) {
    // Whole chunks within the hole; the last chunk of all may be a short one.
    const std::size_t first = (offset + kChunk - 1) / kChunk;
    std::size_t end = offset + size >= area_->size() ? is_reserved_.size() : (offset + size) / kChunk;
    while (end > first && num_bytes_reserved_ > num_bytes) {
      std::size_t start = end;
      while (start > first && is_reserved_[start - 1] && num_bytes_reserved_ > num_bytes) {
        --start;
        is_reserved_[start] = false;
        num_bytes_reserved_ -= chunk_size(start);
      }
      if (start < end) {
        const std::size_t last = std::min(end * kChunk, area_->size());
        file_->give_back(area_->data_offset() + start * kChunk, last - start * kChunk);
      }
      end = start == end ? start - 1 : start;
    }
  });
}

void Sender::trim() {
  if (generation_ != fork_generation()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!is_closed()) {
    collect();
    give_back_down_to(0);
  }
}

void Sender::close() noexcept {
  if (generation_ != fork_generation()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  file_.reset();
}

std::size_t Sender::num_bytes_used() {
  if (generation_ != fork_generation()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  collect();
  return allocator_.num_bytes_used();
}

std::size_t Sender::num_bytes_reserved() {
  if (generation_ != fork_generation()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  return num_bytes_reserved_;
}

}  // namespace spdl
