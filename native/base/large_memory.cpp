#include "base/large_memory.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/buffer.h"

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace spdl {
namespace {

constinit LargeMemory own_memory;
constinit std::atomic<LargeMemory*> current_memory{&own_memory};

// From this size on (NumPy's) memory is asked for in large pages. The first write to fresh memory of 600 MB took 460 ms
// without them and 140 ms with them, of which the copying alone is the greater part.
constexpr std::size_t kLargePagesFrom = std::size_t{4} << 20;

// Kept memory is memory that others cannot have: no more than that, and than this share of what the machine has. Ten
// seconds of 1280x720 are 691 MB: where they are kept, loading them takes 4.7 ms a frame, and where not, 9.6.
constexpr std::size_t kMostKept = std::size_t{1} << 30;
constexpr std::size_t kShareKept = 16;

void ask_for_large_pages(LargeMemory::Block block) noexcept {
#ifdef __linux__
  if (block.size >= kLargePagesFrom) {
    constexpr std::size_t kPage = 4096;
    const std::size_t skipped = kPage - reinterpret_cast<std::uintptr_t>(block.bytes) % kPage;
    // Advice: where it is refused (other page sizes, other settings), nothing is lost.
    (void)madvise(block.bytes + skipped, block.size - skipped, MADV_HUGEPAGE);
  }
#else
  (void)block;
#endif
}

// With AddressSanitizer, using a block that is kept is an error, as using freed memory is.
void forbid(LargeMemory::Block block) noexcept {
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(block.bytes, block.size);
#else
  (void)block;
#endif
}

void allow(LargeMemory::Block block) noexcept {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(block.bytes, block.size);
#else
  (void)block;
#endif
}

}  // namespace

// A child has only the thread that forked. Had another been in here, the lock would be held for ever there.
void protect_from_fork() noexcept {
  // Once: the handlers of a second time would wait for the lock that those of the first have.
  [[maybe_unused]] static const int refused =
      pthread_atfork([] { own_memory.mutex_.lock(); }, [] { own_memory.mutex_.unlock(); },
                     [] { own_memory.mutex_.unlock(); });
}

LargeMemory& large_memory() noexcept { return *current_memory.load(std::memory_order_relaxed); }

void share_large_memory(LargeMemory& memory) noexcept { current_memory.store(&memory, std::memory_order_relaxed); }

void LargeMemory::Dropped::add(Entry& entry) noexcept {
  blocks[count++] = entry.block;
  entry.block = {};
}

void LargeMemory::Dropped::free_all() noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    allow(blocks[i]);
    std::free(blocks[i].bytes);
  }
  count = 0;
}

void LargeMemory::find_limit() noexcept {
  if (limit_ == 0) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    const bool is_known = pages > 0 && page > 0;
    const std::size_t physical = is_known ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
    limit_ = std::clamp(physical / kShareKept, kLargeFrom, kMostKept);
  }
}

// The smallest that will do; of equal ones the last that was kept, which may still be in a cache.
LargeMemory::Block LargeMemory::find(std::size_t size) noexcept {
  Entry* best = nullptr;
  for (Entry& entry : entries_) {
    if (entry.block.bytes == nullptr || entry.block.size < size || entry.block.size > size + size / 4) {
      continue;
    }
    if (best == nullptr || entry.block.size < best->block.size ||
        (entry.block.size == best->block.size && entry.kept_at > best->kept_at)) {
      best = &entry;
    }
  }
  if (best == nullptr) {
    return {};
  }
  const Block found = best->block;
  best->block = {};
  num_bytes_ -= found.size;
  return found;
}

LargeMemory::Block LargeMemory::take(std::size_t size) noexcept {
  Dropped dropped;
  Block block;
  {
    const std::lock_guard lock(mutex_);
    ++num_uses_;
    block = find(size);
    for (Entry& entry : entries_) {
      if (entry.block.bytes != nullptr && num_uses_ - entry.kept_at > kMaxUses) {
        num_bytes_ -= entry.block.size;
        dropped.add(entry);
      }
    }
  }
  dropped.free_all();
  if (block.bytes != nullptr) {
    allow(block);
    return block;
  }
  block = {static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, size)), size};
  if (block.bytes == nullptr) {
    release();
    block.bytes = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, size));
  }
  if (block.bytes == nullptr) {
    return {};
  }
  ask_for_large_pages(block);
  return block;
}

void LargeMemory::give_back(Block block) noexcept {
  Dropped dropped;
  {
    const std::lock_guard lock(mutex_);
    find_limit();
    Entry incoming{block, ++num_uses_};
    if (block.size > limit_) {
      dropped.add(incoming);
    } else {
      forbid(block);
      Entry* place = nullptr;
      while (true) {
        Entry* oldest = nullptr;
        for (Entry& entry : entries_) {
          if (entry.block.bytes == nullptr) {
            place = &entry;
          } else if (oldest == nullptr || entry.kept_at < oldest->kept_at) {
            oldest = &entry;
          }
        }
        if (place != nullptr && num_bytes_ + block.size <= limit_) {
          break;
        }
        num_bytes_ -= oldest->block.size;
        dropped.add(*oldest);
      }
      *place = incoming;
      num_bytes_ += block.size;
    }
  }
  dropped.free_all();
}

void LargeMemory::release() noexcept {
  Dropped dropped;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.block.bytes != nullptr) {
        dropped.add(entry);
      }
    }
    num_bytes_ = 0;
  }
  dropped.free_all();
}

LargeMemory::Kept LargeMemory::kept() noexcept {
  const std::lock_guard lock(mutex_);
  const auto num_blocks = std::count_if(entries_.begin(), entries_.end(),
                                        [](const Entry& entry) { return entry.block.bytes != nullptr; });
  return {static_cast<std::size_t>(num_blocks), num_bytes_};
}

}  // namespace spdl
