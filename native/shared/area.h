// Memory that two processes have mapped: a control part, which both change with atomic operations, and the data behind
// it.
//
//   control   sizes; a few counters (`word`); for each block how many references there are to it; which blocks have none
//             any more; whether somebody waits for the doorbell
//   data      what the blocks are made of. Which part belongs to which block only their owner knows, not this.
//
// A block is a number. Its count is changed where a reference is made or dropped, in either process, on any thread, and
// the thread that drops the last one marks it in a bit map, which the owner collects: neither has to wait for the
// other, and the death of either at any instruction leaves nothing that the other could trip over. The bit map has a
// summary, so that collecting costs in proportion to what was freed.
//
// The mapping stays while there is a shared_ptr to the area; its descriptors go with `close`. Thread-safe, except
// that `close` may run at the same time as `drop` only. In a forked child `drop` and `ring` do nothing (see process.h).

#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "shared/anonymous_file.h"
#include "shared/doorbell.h"

namespace spdl {

class Area {
 public:
  static constexpr std::uint32_t kNumWords = 4;
  static constexpr std::uint32_t kMaxBlocks = 1U << 20;

  // Makes the file, with room for `size` bytes of data. Throws std::system_error.
  Area(std::size_t size, std::uint32_t num_blocks, bool has_bell);
  // Maps what another process made. Takes the descriptors over; the bell's are -1 where there is none. Throws
  // std::system_error, also (EINVAL) for a file that is no area. Without `maps_data` only the control part is mapped:
  // for a process without address space for the rest, which reads the file instead and drops the blocks.
  Area(int fd, int bell_read_fd, int bell_write_fd, bool maps_data = true);
  ~Area();
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;

  std::uint8_t* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool maps_data() const noexcept { return maps_data_; }
  std::uint32_t num_blocks() const noexcept { return num_blocks_; }
  const AnonymousFile& file() const noexcept { return file_; }
  Doorbell& bell() noexcept { return bell_; }
  // Where the data begins in the file.
  std::size_t data_offset() const noexcept { return static_cast<std::size_t>(data_ - base_); }
  // It was made before this process was forked off.
  bool is_inherited() const noexcept;
  // A second mapping, with descriptors of its own. Throws std::system_error.
  std::shared_ptr<Area> duplicate() const;
  bool has(const void* address, std::size_t num_bytes) const noexcept;
  void close() noexcept;

  // Numbers to be shared, zero at first, each on a cache line of its own.
  std::atomic<std::uint64_t>& word(std::uint32_t index) const noexcept { return words_[index].value; }

  // One more, or several, references to a block.
  void add(std::uint32_t block, std::uint32_t count = 1) const noexcept {
    counts_[block].fetch_add(count, std::memory_order_relaxed);
  }
  // Drops a reference. The last one also wakes those that wait.
  void drop(std::uint32_t block) noexcept;
  // How many blocks have references. It takes a look at each.
  std::uint32_t num_used() const noexcept;
  // Calls visit(block) for each block that has no reference any more, once. For the owner of the blocks.
  template <class Visit>
  void collect(Visit&& visit) const {
    for (std::uint32_t i = 0; i < num_summaries_; ++i) {
      if (summaries_[i].load(std::memory_order_relaxed) == 0) {
        continue;
      }
      for (std::uint64_t rows = summaries_[i].exchange(0, std::memory_order_acquire); rows != 0; rows &= rows - 1) {
        const auto row = i * 64 + static_cast<std::uint32_t>(std::countr_zero(rows));
        for (std::uint64_t bits = freed_[row].exchange(0, std::memory_order_acquire); bits != 0; bits &= bits - 1) {
          visit(row * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
        }
      }
    }
  }

  // Waiting for the other side: announce, look at the shared state once more, then bell().wait; and the other way
  // round, change the state, then ring, which costs a system call only if somebody announced it.
  void announce_wait() const noexcept;
  void ring() noexcept;

 private:
  struct alignas(64) Word {
    std::atomic<std::uint64_t> value;
  };
  struct Header;

  void map(std::size_t file_size);
  void place(std::uint32_t num_blocks) noexcept;

  AnonymousFile file_;
  Doorbell bell_;
  std::uint8_t* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  bool maps_data_ = true;
  std::uint32_t num_blocks_ = 0;
  std::uint32_t num_summaries_ = 0;
  std::uint32_t generation_ = 0;
  // In the control part.
  Header* header_ = nullptr;
  Word* words_ = nullptr;
  std::atomic<std::uint64_t>* summaries_ = nullptr;  // a bit for each of freed_ that may have bits
  std::atomic<std::uint64_t>* freed_ = nullptr;      // a bit for each block
  std::atomic<std::uint32_t>* counts_ = nullptr;
};

// One reference to a block, dropped at the end; and the mapping is kept until then.
class Lease {
 public:
  // Takes over a reference that was counted already.
  Lease(std::shared_ptr<Area> area, std::uint32_t block) noexcept : area_(std::move(area)), block_(block) {}
  ~Lease() {
    if (area_) {
      area_->drop(block_);
    }
  }
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&&) = delete;

 private:
  std::shared_ptr<Area> area_;
  std::uint32_t block_;
};

}  // namespace spdl
