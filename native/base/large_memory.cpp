#include "base/large_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "base/buffer.h"
#include "base/memory_limit.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace spdl {
namespace {

constinit LargeMemory own_memory;
constinit std::atomic<LargeMemory*> current_memory{&own_memory};

// From this size on, that of a large page, blocks are mappings of their own, aligned to such pages and made of them. The
// first write to fresh memory of 600 MB took 460 ms without them and 140 ms with them, of which the copying alone is the
// greater part. Memory of malloc's is not asked to be, as it would stay so when it is somebody else's.
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kMappedFrom = kLargePage;

// Kept memory is memory that others cannot have: no more than that, and than this share of what the process can have. Ten
// seconds of 1280x720 are 691 MB: where they are kept, loading them takes 4.7 ms a frame, and where not, 9.6.
constexpr std::size_t kMostKept = std::size_t{1} << 30;
constexpr std::size_t kShareKept = 16;

#if defined(__SANITIZE_ADDRESS__) || !defined(MAP_ANONYMOUS)
constexpr bool kMaps = false;  // the sanitizer sees the ends of malloc's blocks only
#else
constexpr bool kMaps = true;
#endif

bool is_mapping(LargeMemory::Block block) noexcept { return kMaps && block.size >= kMappedFrom; }

// As large as the block is to be; its start is that of a large page.
std::uint8_t* map(std::size_t size) noexcept {
  const std::size_t whole = size + kLargePage;
  void* const found = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) {
    return nullptr;
  }
  auto* const bytes = static_cast<std::uint8_t*>(found);
  const std::size_t before = round_up(reinterpret_cast<std::uintptr_t>(bytes), kLargePage) -
                             reinterpret_cast<std::uintptr_t>(bytes);
  if (before > 0) {
    munmap(bytes, before);
  }
  munmap(bytes + before + size, whole - before - size);
#ifdef MADV_HUGEPAGE
  // Advice: where it is refused (other page sizes, other settings), nothing is lost.
  (void)madvise(bytes + before, size, MADV_HUGEPAGE);
#endif
  return bytes + before;
}

LargeMemory::Block allocate(std::size_t size) noexcept {
  if (!is_mapping({nullptr, size})) {
    return {static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, size)), size};
  }
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = round_up(size, page);
  if (whole < size || whole + kLargePage < whole) {
    return {};
  }
  return {map(whole), whole};
}

void deallocate(LargeMemory::Block block) noexcept {
  if (is_mapping(block)) {
    munmap(block.bytes, block.size);
  } else {
    std::free(block.bytes);
  }
}

// The block that was given back last is not marked up to this size: it is mostly the next one that is taken, as the batches
// of a loader are, and the call takes longer than all else here. malloc keeps up to as much.
constexpr std::size_t kMostUnmarked = std::size_t{32} << 20;

// From now on the system may take the pages, until they are written to. 38 MB take 0.03 ms of large pages, and 0.8 of small
// ones, where writing to fresh ones takes 4 and 40.
void mark_as_free(LargeMemory::Block block) noexcept {
#ifdef MADV_FREE
  if (is_mapping(block)) {
    (void)madvise(block.bytes, block.size, MADV_FREE);
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

// A child has only the thread that forked. If another thread held the lock during the fork, it would be held forever in
// the child.
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
    deallocate(blocks[i]);
  }
  count = 0;
}

std::size_t LargeMemory::default_limit() noexcept {
  return std::clamp(memory_limit() / kShareKept, kLargeFrom, kMostKept);
}

// Two threads may look at the same time: they find the same.
std::size_t LargeMemory::limit() noexcept {
  std::size_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == kUnknown) {
    std::size_t unknown = kUnknown;
    limit = default_limit();
    if (!limit_.compare_exchange_strong(unknown, limit, std::memory_order_relaxed)) {
      limit = unknown;
    }
  }
  return limit;
}

void LargeMemory::set_limit(std::size_t num_bytes) noexcept {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  limit_.store(std::min(num_bytes, kUnknown - 1), std::memory_order_relaxed);
  make_room(0, dropped);
}

void LargeMemory::set_longest(Clock::duration longest) noexcept {
  const std::lock_guard lock(mutex_);
  longest_ = longest;
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

void LargeMemory::drop(Entry& entry, Dropped& dropped) noexcept {
  num_bytes_ -= entry.block.size;
  dropped.add(entry);
}

void LargeMemory::drop_unused(Dropped& dropped) noexcept {
  const Clock::time_point now = Clock::now();
  for (Entry& entry : entries_) {
    if (entry.block.bytes != nullptr && (num_uses_ - entry.kept_at > kMaxUses || now - entry.since >= longest_)) {
      drop(entry, dropped);
    }
  }
}

LargeMemory::Entry* LargeMemory::make_room(std::size_t size, Dropped& dropped) noexcept {
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  while (true) {
    Entry* place = nullptr;
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.block.bytes == nullptr) {
        place = &entry;
      } else if (oldest == nullptr || entry.kept_at < oldest->kept_at) {
        oldest = &entry;
      }
    }
    if (size <= limit && num_bytes_ <= limit - size && place != nullptr) {
      return place;
    }
    if (oldest == nullptr) {
      return nullptr;
    }
    drop(*oldest, dropped);
  }
}

LargeMemory::Block LargeMemory::take(std::size_t size) noexcept {
  Block block;
  {
    Dropped dropped;
    const std::lock_guard lock(mutex_);
    ++num_uses_;
    block = find(size);
    drop_unused(dropped);
  }
  if (block.bytes != nullptr) {
    allow(block);
    return block;
  }
  block = allocate(size);
  if (block.bytes == nullptr) {
    release();
    block = allocate(size);
  }
  return block;
}

void LargeMemory::give_back(Block block) noexcept {
  if (block.size > limit()) {
    deallocate(block);
    return;
  }
  Entry incoming{block, 0, Clock::now()};
  if (block.size > kMostUnmarked || !is_mapping(block)) {
    // Before somebody else can take it, and write to it.
    mark_as_free(block);
    forbid(block);
    keep(incoming);
    return;
  }
  forbid(block);
  incoming.is_unmarked = true;
  Entry previous = keep(incoming);
  if (previous.block.bytes != nullptr) {
    mark_as_free(previous.block);
    previous.is_unmarked = false;
    keep(previous);
  }
}

LargeMemory::Entry LargeMemory::keep(Entry incoming) noexcept {
  Entry previous;
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  if (incoming.kept_at == 0) {
    incoming.kept_at = ++num_uses_;
  }
  drop_unused(dropped);
  if (incoming.is_unmarked) {
    previous = take_unmarked();
  }
  if (Entry* const place = make_room(incoming.block.size, dropped)) {
    *place = incoming;
    num_bytes_ += incoming.block.size;
  } else {
    dropped.add(incoming);  // the limit has changed meanwhile
  }
  return previous;
}

LargeMemory::Entry LargeMemory::take_unmarked() noexcept {
  for (Entry& entry : entries_) {
    if (entry.block.bytes != nullptr && entry.is_unmarked) {
      num_bytes_ -= entry.block.size;
      return std::exchange(entry, {});
    }
  }
  return {};
}

void LargeMemory::release() noexcept {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.block.bytes != nullptr) {
      drop(entry, dropped);
    }
  }
}

LargeMemory::Kept LargeMemory::kept() noexcept {
  const std::lock_guard lock(mutex_);
  const auto num_blocks = std::count_if(entries_.begin(), entries_.end(),
                                        [](const Entry& entry) { return entry.block.bytes != nullptr; });
  return {static_cast<std::size_t>(num_blocks), num_bytes_};
}

}  // namespace spdl
