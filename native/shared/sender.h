// The sending side of an area. It allocates the blocks, and keeps its bookkeeping in private memory.
//
// A put first collects freed blocks, then copies each buffer to its own block and counts one reference for the
// receiver. A slot is a block that is filled in place: its count starts with the caller's reference, and a put of
// memory within it adds a reference instead of copying.
//
// Memory is reserved from the system in chunks before it is first touched, so that running out of memory is an error
// and not a signal. Free chunks go back, the highest first, if the peak use over this window of puts and the previous
// one was less than half of the reserved memory. `trim` gives back all free memory.
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

// Where the bytes of a buffer are. A buffer without bytes has no block: its block number is the number of blocks.
struct Span {
  std::uint32_t block = 0;
  std::size_t offset = 0;  // from the beginning of the data
  std::size_t size = 0;
};

class Sender {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // Takes 0.1 ms to clear, about the cost of the rest of a frame.
  static constexpr std::size_t kChunk = std::size_t{1} << 18;
  static constexpr std::uint32_t kWindow = 1024;  // puts

  // An area must have only one sender, ever. Throws std::system_error.
  explicit Sender(std::shared_ptr<Area> area);

  const std::shared_ptr<Area>& area() const noexcept { return area_; }

  // All or none; `spans` has the size of `buffers`. False if there is no room.
  bool put(std::span<const Bytes> buffers, std::span<Span> spans);
  void take_back(std::span<const Span> spans) noexcept;
  // `size` > 0. The caller owns the reference and makes a Lease of it.
  std::optional<Span> slot(std::size_t size);
  void trim();
  // Releases the descriptor; from now on there is no room.
  void close() noexcept;

  std::size_t num_bytes_used();      // of blocks, in whole units
  std::size_t num_bytes_reserved();  // system memory that the data takes

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
