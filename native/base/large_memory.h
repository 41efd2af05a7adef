// A cache of large blocks of memory that were freed, for the next allocations of that size.
//
// The system takes back a large block that is freed, and every page of a fresh one costs a fault and is cleared before
// the first write to it: 0.12 ms of the system's time per megabyte, large pages and all, as long as it takes to copy
// something there. A program that loads batch after batch frees a block as large as the one that it needs next.
//
// Kept blocks cost others nothing: their pages are marked as free (MADV_FREE), so that the system takes them before it
// swaps, and before it ends a process for want of memory, whether the process runs or sleeps. So there is no thread
// that watches. The block that was kept last is the exception, if it has at most 32 MiB. There are three limits as well:
// bytes, by default a share of the memory that this process may have; blocks; and time.
//
// One object serves the whole process. Rules of style forbid mutable globals; this is the exception, for what it stands
// for, the memory of the process, is one. Nothing can be told from it but speed: contents are undefined as in any
// fresh memory, and what is kept is limited. There are no destructors at exit: threads may still free memory then.
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

// Blocks below this size are left to malloc, which keeps them itself. From where on it does not is a matter of its
// kind, of the thread, and of what was freed before: with glibc 2.36, 128 KiB at first, and 32 MiB at most. Faults for
// a megabyte take a hundred times as long as a search here.
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
  // Keeps the block or frees it. Those that were kept longest make room.
  void give_back(Block block) noexcept;
  // Frees all that is kept.
  void release() noexcept;
  Kept kept() noexcept;

  // How many bytes may be kept; 0: none. What is kept beyond a new limit is freed.
  std::size_t limit() noexcept;
  void set_limit(std::size_t num_bytes) noexcept;
  static std::size_t default_limit() noexcept;
  // A block that was kept for this long is freed when the next one is taken or given back.
  void set_longest(Clock::duration longest) noexcept;

 private:
  // Enough for the blocks that several threads have in turn; a limit for the time that a search takes.
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

  // Keeps the block, or frees it if there is no room. Of an unmarked one: returns the unmarked one before, no longer kept.
  Entry keep(Entry incoming) noexcept;

  // With the lock.
  Entry take_unmarked() noexcept;
  Block find(std::size_t size) noexcept;
  void drop(Entry& entry, Dropped& dropped) noexcept;
  void drop_unused(Dropped& dropped) noexcept;
  // Drops what was kept longest until `size` bytes more are within the limit. The place for them, null without one.
  Entry* make_room(std::size_t size, Dropped& dropped) noexcept;

  std::mutex mutex_;  // guards all below
  std::array<Entry, kMaxBlocks> entries_;
  std::size_t num_bytes_ = 0;
  Clock::duration longest_ = std::chrono::seconds(10);
  std::uint64_t num_uses_ = 0;
  std::atomic<std::size_t> limit_ = kUnknown;  // read without the lock as well

  friend void protect_from_fork() noexcept;
};

// That of this process. Each of our extensions has one: whichever is loaded later is told to use the other's, before it
// uses its own, so that what one allocates and another frees comes back.
LargeMemory& large_memory() noexcept;
void share_large_memory(LargeMemory& memory) noexcept;
// For the one that others share.
void protect_from_fork() noexcept;

}  // namespace spdl
