// A cache of freed large memory blocks, for the next allocations of that size.
//
// A freed large block goes back to the system, and in a fresh block every page costs a fault and is cleared before the
// first write: 0.12 ms of system time per megabyte, even with large pages, which is as long as copying the data there.
// A program that loads batch after batch frees a block of the same size as it needs next.
//
// Kept blocks cost other programs nothing: their pages are marked as free (MADV_FREE), so the system takes them before
// it swaps or kills a process for lack of memory, whether the process runs or sleeps. So no thread has to watch memory
// use. The exception is the block that was kept last, if it has at most 32 MiB. There are also three limits: bytes, by
// default a share of the memory that this process may use; blocks; and time.
//
// One object serves the whole process. The style guide forbids mutable globals; this is an exception, because the
// memory of the process is global too. It affects only speed: contents are undefined as in any fresh memory, and the
// amount kept is limited. There are no destructors at exit, because threads may still free memory then.
//
// Thread-safe, and safe in a forked child.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace spdl {

// Blocks below this size are left to malloc, which caches them itself. The size from which it does not depends on the
// allocator, on the thread, and on what was freed before: with glibc 2.36, 128 KiB at first and 32 MiB at most. The
// page faults for a megabyte take a hundred times as long as a search here.
inline constexpr std::size_t kLargeFrom = std::size_t{1} << 20;

class LargeMemory {
 public:
  struct Block {
    std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
  };
  struct Kept {
    std::size_t num_blocks = 0;
    std::size_t num_bytes = 0;
  };
  using Clock = std::chrono::steady_clock;

  constexpr LargeMemory() = default;
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  // A block of at least `size` bytes, and at most a quarter more; empty if there is no memory. `size` is a multiple of
  // kAlignment.
  Block take(std::size_t size) noexcept;
  // Keeps the block or frees it. Frees the blocks kept longest to make room.
  void give_back(Block block) noexcept;
  // Frees all kept blocks.
  void release() noexcept;
  Kept kept() noexcept;

  // How many bytes may be kept; 0: none. Setting a lower limit frees the excess.
  std::size_t limit() noexcept;
  void set_limit(std::size_t num_bytes) noexcept;
  static std::size_t default_limit() noexcept;
  // A block that was kept for this long is freed when the next one is taken or given back.
  void set_longest(Clock::duration longest) noexcept;

 private:
  // Enough for the blocks that several threads use alternately; bounds the time of a search.
  static constexpr std::size_t kMaxBlocks = 64;
  // A block that was not used during this many uses of others is freed: the program now needs other sizes.
  static constexpr std::uint64_t kMaxUses = 128;

  static constexpr std::size_t kUnknown = SIZE_MAX;

  struct Entry {
    Block block;                // null if the place is free
    std::uint64_t kept_at = 0;  // by num_uses_
    Clock::time_point since;
    bool is_unmarked = false;  // its pages are not marked as free; one entry at most
  };
  // Blocks to be freed when the lock is no longer held.
  struct Dropped {
    std::array<Block, kMaxBlocks + 1> blocks;
    std::size_t count = 0;

    ~Dropped() { free_all(); }
    void add(Entry& entry) noexcept;
    void free_all() noexcept;
  };

  // Keeps the block, or frees it if there is no room. If the block is unmarked, returns the previous unmarked one,
  // which is no longer kept.
  Entry keep(Entry incoming) noexcept;

  // With the lock.
  Entry take_unmarked() noexcept;
  Block find(std::size_t size) noexcept;
  void drop(Entry& entry, Dropped& dropped) noexcept;
  void drop_unused(Dropped& dropped) noexcept;
  // Drops the blocks kept longest until `size` more bytes are within the limit. Returns a free entry, or null if there
  // is none.
  Entry* make_room(std::size_t size, Dropped& dropped) noexcept;

  std::mutex mutex_;  // guards everything below
  std::array<Entry, kMaxBlocks> entries_;
  std::size_t num_bytes_ = 0;
  Clock::duration longest_ = std::chrono::seconds(10);
  std::uint64_t num_uses_ = 0;
  std::atomic<std::size_t> limit_ = kUnknown;  // also read without the lock

  friend void protect_from_fork() noexcept;
};

// The cache of this process. Each of our extensions has its own; the one that is loaded later is set to use the other's
// before it uses its own, so that a block allocated by one and freed by another is reused.
LargeMemory& large_memory() noexcept;
void share_large_memory(LargeMemory& memory) noexcept;
// For the cache that the extensions share.
void protect_from_fork() noexcept;

}  // namespace spdl
