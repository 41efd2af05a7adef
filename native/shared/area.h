// Memory that two processes have mapped: a control part, which both change with atomic operations, followed by the
// data.
//
//   control   sizes; a few counters (`word`); for each block how many references there are to it; which blocks have none
//             any more; whether somebody waits for the doorbell
//   data      what the blocks are made of. Which part belongs to which block only their owner knows, not this.
//
// A block is a number. Any thread of either process changes a block's count when it makes or drops a reference. The
// thread that drops the last one marks the block in a bitmap, which the owner collects. Neither process waits for the
// other, and if one dies at any instruction, the shared state stays valid for the other. The bitmap has a summary, so
// the cost of collecting is proportional to the number of freed blocks.
//
// The mapping lives as long as a shared_ptr to the area; `close` closes the descriptors. Thread-safe, except that only
// `drop` may run at the same time as `close`. In a forked child `drop` and `ring` do nothing (see process.h).

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
  // Maps the area of another process. Takes over the descriptors; the bell's are -1 without a bell. Throws
  // std::system_error, also (EINVAL) for a file that is not an area. Without `maps_data` only the control part is
  // mapped: for a process without enough address space for the rest, which reads the file instead and drops the blocks.
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
  // Whether it was made before this process was forked.
  bool is_inherited() const noexcept;
  // A second mapping, with its own descriptors. Throws std::system_error.
  std::shared_ptr<Area> duplicate() const;
  bool has(const void* address, std::size_t num_bytes) const noexcept;
  void close() noexcept;

  // A shared number, initially zero, on its own cache line.
  std::atomic<std::uint64_t>& word(std::uint32_t index) const noexcept { return words_[index].value; }

  // Adds references to a block.
  void add(std::uint32_t block, std::uint32_t count = 1) const noexcept {
    counts_[block].fetch_add(count, std::memory_order_relaxed);
  }
  // Drops a reference. Dropping the last one also wakes a waiting process.
  void drop(std::uint32_t block) noexcept;
  // How many blocks have references. Checks every block.
  std::uint32_t num_used() const noexcept;
  // Calls visit(block) once for each block whose last reference was dropped. For the owner of the blocks.
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

  // To wait for the other side: announce, check the shared state again, then call bell().wait. To wake it: change the
  // state, then ring, which costs a system call only if the other side announced a wait.
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
  std::atomic<std::uint64_t>* summaries_ = nullptr;  // one bit for each word of freed_ that may have bits set
  std::atomic<std::uint64_t>* freed_ = nullptr;      // a bit for each block
  std::atomic<std::uint32_t>* counts_ = nullptr;
};

// One reference to a block, dropped by the destructor. Keeps the mapping until then.
class Lease {
 public:
  // Takes over a reference that is already counted.
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
