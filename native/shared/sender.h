// The sending side of an area. It allocates the blocks, and keeps its bookkeeping in memory that the other side cannot
// reach.
//
// A put copies each buffer to a block of its own and counts one reference to it, which is the receiver's. What was
// freed meanwhile is collected first. A slot is a block that is filled in place: its count begins with the reference of
// whoever fills it, and a put of memory within it adds one instead of copying.
//
// Memory is asked of the system in chunks before it is first touched, so that where there is none the answer is no, and
// not a signal. It is kept while it is used: of the chunks that are free, the highest go back if, over a window of puts
// and the one before it, what was used at most was less than half of what is there. `trim` gives back all that is free.
//
// Thread-safe. Copying and reserving memory happen outside the lock. In a forked child there is never room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "shared/allocator.h"
#include "shared/anonymous_file.h"
#include "shared/area.h"

namespace spdl {

// Where the bytes of a buffer are. A buffer without bytes has no block: its number is that of the blocks.
struct Span {
  std::uint32_t block = 0;
  std::size_t offset = 0;  // from the beginning of the data
  std::size_t size = 0;
};

class Sender {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // 0.1 ms to clear, about as much as a frame costs otherwise.
  static constexpr std::size_t kChunk = std::size_t{1} << 18;
  static constexpr std::uint32_t kWindow = 1024;  // puts

  // The only one for this area, ever. Throws std::system_error.
  explicit Sender(std::shared_ptr<Area> area);

  const std::shared_ptr<Area>& area() const noexcept { return area_; }

  // All or none; `spans` has the size of `buffers`. False if there is no room.
  bool put(std::span<const Bytes> buffers, std::span<Span> spans);
  void take_back(std::span<const Span> spans) noexcept;
  // `size` > 0. The reference is the caller's, who makes a Lease of it.
  std::optional<Span> slot(std::size_t size);
  void trim();
  // Gives the descriptor back; from now on there is no room.
  void close() noexcept;

  std::size_t num_bytes_used();      // of blocks, in whole units
  std::size_t num_bytes_reserved();  // what the data takes of the system's memory

 private:
  struct Block {
    std::size_t offset = 0;
    std::size_t size = 0;  // in whole units
    bool is_slot = false;
  };
  struct Range {
    std::size_t offset;
    std::size_t size;
  };
  using Ranges = std::vector<Range>;

  // All of these with the lock held.
  void collect();
  bool has_room_for(Bytes bytes, Span& span, Ranges& unreserved);
  bool take(std::size_t size, bool is_slot, Span& span, Ranges& unreserved);
  void free_block(std::uint32_t block);
  void find_unreserved(const Block& block, Ranges& unreserved) const;
  void end_window() noexcept;
  void give_back_down_to(std::size_t num_bytes) noexcept;

  bool reserve(const Ranges& ranges);  // without the lock
  bool is_closed() const noexcept { return file_ == nullptr; }
  std::size_t chunk_size(std::size_t chunk) const noexcept;

  const std::shared_ptr<Area> area_;
  const std::uint32_t generation_;
  std::mutex mutex_;  // guards all below
  std::shared_ptr<const AnonymousFile> file_;  // null when closed; a thread that is reserving memory still has it
  Allocator allocator_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> free_blocks_;
  std::map<std::size_t, std::uint32_t> slots_;  // by offset
  std::vector<bool> is_reserved_;               // by chunk
  std::size_t num_bytes_reserved_ = 0;
  std::uint32_t num_puts_ = 0;  // in this window
  std::size_t peak_ = 0;
  std::size_t peak_before_ = 0;
};

}  // namespace spdl
