#include "shared/frame_ring.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/buffer.h"
#include "base/spin.h"
#include "shared/process.h"

namespace spdl {

struct FrameRing::Header {
  std::uint64_t magic;
  std::uint64_t capacity;
  alignas(64) std::atomic<std::uint64_t> head;  // bytes put since the beginning
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes taken
  alignas(64) std::atomic<std::uint32_t> is_waited_for;
  std::atomic<std::uint32_t> reader;
};

// Before each message. Records begin at multiples of their size, so none wraps around; messages may.
struct FrameRing::Record {
  std::uint32_t size;
  std::uint32_t num_other;
};

namespace {

constexpr std::uint64_t kMagic = 0x676e6972'6c647073;
constexpr std::size_t kAlign = 8;
constexpr std::size_t kReserveAtOnce = std::size_t{1} << 16;
// States of the reader.
constexpr std::uint32_t kOpen = 1;
constexpr std::uint32_t kClosed = 2;
// Waking a sleeping virtual processor takes 25 to 50 us. With a shorter spin, once one side has slept, it is always
// asleep when the other side gives up: measured, items took 25 us permanently with a spin of 20 us, and 5 us with 50
// us.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr std::uint32_t kMostSkipped = 63;

std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

[[noreturn]] void refuse(int code, const char* what) { throw std::system_error(code, std::generic_category(), what); }

bool is_capacity(std::uint64_t capacity) noexcept {
  return std::has_single_bit(capacity) && capacity >= page_size() && capacity <= (std::uint64_t{1} << 30);
}

}  // namespace

FrameRing::FrameRing(std::size_t capacity) : capacity_(capacity), generation_(fork_generation()) {
  if (!is_capacity(capacity)) {
    refuse(EINVAL, "make a ring in shared memory");
  }
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Record) == kAlign);
  const std::size_t control = round_up(sizeof(Header), page_size());
  file_ = AnonymousFile::create(control + capacity);
  if (const int code = file_.reserve(0, control); code != 0) {
    refuse(code, "reserve shared memory");
  }
  map(control + capacity);
  header_ = ::new (base_)
      Header{.magic = kMagic, .capacity = capacity, .head = 0, .tail = 0, .is_waited_for = 0, .reader = 0};
  data_ = base_ + control;
  watch_forks();
}

FrameRing::FrameRing(AnonymousFile file, std::size_t file_size)
    : file_(std::move(file)), generation_(fork_generation()) {
  map(file_size);
  header_ = std::launder(reinterpret_cast<Header*>(base_));
  const std::size_t control = round_up(sizeof(Header), page_size());
  if (header_->magic != kMagic || !is_capacity(header_->capacity) || control + header_->capacity != file_size) {
    ::munmap(base_, mapped_);
    refuse(EINVAL, "map a ring in shared memory");
  }
  capacity_ = header_->capacity;
  data_ = base_ + control;
  watch_forks();
}

FrameRing* FrameRing::attach(int fd) {
  AnonymousFile file(fd);
  const std::size_t size = file.size();
  if (size < 2 * page_size()) {
    refuse(EINVAL, "map a ring in shared memory");
  }
  return new FrameRing(std::move(file), size);
}

FrameRing::~FrameRing() { ::munmap(base_, mapped_); }

void FrameRing::map(std::size_t file_size) {
  void* const address = ::mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (address == MAP_FAILED) {
    refuse(errno, "map shared memory");
  }
  base_ = static_cast<std::byte*>(address);
  mapped_ = file_size;
}

void FrameRing::close_file() noexcept {
  if (is_inherited()) {
    file_.close();  // the mutex may be held by a thread that does not exist in this process
    return;
  }
  const std::lock_guard lock(mutex_);
  file_.close();
}

bool FrameRing::is_inherited() const noexcept { return generation_ != fork_generation(); }

void FrameRing::count_other(std::uint32_t count) noexcept {
  if (!is_inherited()) {
    const std::lock_guard lock(mutex_);
    num_other_ += count;
  }
}

// Writing to a page without memory would end this process (SIGBUS) if the system has none left. After the first round
// all pages have memory.
bool FrameRing::reserve_until(std::uint64_t position) noexcept {
  const std::size_t needed = static_cast<std::size_t>(std::min<std::uint64_t>(position, capacity_));
  if (needed <= num_reserved_) {
    return true;
  }
  const std::size_t until = std::min(round_up(needed, kReserveAtOnce), capacity_);
  const std::size_t control = static_cast<std::size_t>(data_ - base_);
  if (file_.reserve(control + num_reserved_, until - num_reserved_) != 0) {
    return false;
  }
  num_reserved_ = until;
  return true;
}

std::uint64_t FrameRing::copy_in(std::uint64_t position, std::span<const std::byte> piece) noexcept {
  if (!piece.empty()) {
    const std::size_t offset = position % capacity_;
    const std::size_t first = std::min(piece.size(), capacity_ - offset);
    std::memcpy(data_ + offset, piece.data(), first);
    std::memcpy(data_, piece.data() + first, piece.size() - first);
  }
  return position + piece.size();
}

FrameRing::Put FrameRing::put(std::span<const std::span<const std::byte>> pieces) {
  if (is_inherited()) {
    return Put::kRefused;
  }
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    size += piece.size();
  }
  if (size == 0 || size > max_size()) {
    return Put::kRefused;
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = position_ + sizeof(Record) + round_up(size, kAlign);
  if (end - known_tail_ > capacity_) {  // reading what the reader writes is not free
    known_tail_ = header_->tail.load(std::memory_order_acquire);
  }
  if (end - known_tail_ > capacity_ || file_.fd() < 0 || header_->reader.load(std::memory_order_relaxed) != kOpen ||
      !reserve_until(end)) {
    return Put::kRefused;
  }
  const Record record{.size = static_cast<std::uint32_t>(size), .num_other = num_other_};
  std::memcpy(data_ + position_ % capacity_, &record, sizeof record);
  std::uint64_t position = position_ + sizeof record;
  for (const auto& piece : pieces) {
    position = copy_in(position, piece);
  }
  position_ = end;
  header_->head.store(end, std::memory_order_seq_cst);
  if (header_->is_waited_for.load(std::memory_order_seq_cst) != 0) {
    return header_->is_waited_for.exchange(0, std::memory_order_relaxed) != 0 ? Put::kWaking : Put::kDone;
  }
  return Put::kDone;
}

void FrameRing::open_reader() noexcept {
  std::uint32_t none = 0;
  header_->reader.compare_exchange_strong(none, kOpen, std::memory_order_relaxed);
}

void FrameRing::close_reader() noexcept {
  if (!is_inherited()) {
    header_->reader.store(kClosed, std::memory_order_relaxed);
  }
}

bool FrameRing::has_message() const noexcept {
  if (header_->head.load(std::memory_order_seq_cst) == position_) {
    return false;
  }
  Record record;
  std::memcpy(&record, data_ + position_ % capacity_, sizeof record);
  return static_cast<std::int32_t>(record.num_other - num_other_) <= 0;
}

void FrameRing::take(std::vector<std::byte>& data, std::size_t enough) {
  if (is_inherited()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t head = header_->head.load(std::memory_order_acquire);
  const std::size_t until = data.size() + enough;
  const std::uint64_t begin = position_;
  while (position_ != head && data.size() < until) {
    Record record;
    std::memcpy(&record, data_ + position_ % capacity_, sizeof record);
    if (static_cast<std::int32_t>(record.num_other - num_other_) > 0) {
      break;
    }
    const std::uint64_t start = position_ + sizeof record;
    const std::uint64_t end = start + round_up(std::size_t{record.size}, kAlign);
    if (record.size > max_size() || end - position_ > head - position_) {
      refuse(EBADMSG, "read from a ring in shared memory");
    }
    const std::size_t offset = start % capacity_;
    const std::size_t first = std::min<std::size_t>(record.size, capacity_ - offset);
    data.insert(data.end(), data_ + offset, data_ + offset + first);
    data.insert(data.end(), data_, data_ + (record.size - first));
    position_ = end;
  }
  if (position_ != begin) {
    header_->tail.store(position_, std::memory_order_release);
    if (std::exchange(is_announced_, false)) {
      header_->is_waited_for.store(0, std::memory_order_relaxed);
    }
  }
}

bool FrameRing::has_message_or_announce() {
  if (is_inherited()) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (has_message()) {
    return true;
  }
  header_->is_waited_for.store(1, std::memory_order_seq_cst);
  is_announced_ = true;
  return has_message();
}

bool FrameRing::spin() {
  if (is_inherited() || !has_processors()) {
    return false;
  }
  const auto is_there = [this] {
    return header_->head.load(std::memory_order_acquire) != header_->tail.load(std::memory_order_relaxed);
  };
  if (is_there()) {
    return true;
  }
  if (num_to_skip_ > 0) {
    --num_to_skip_;
    return false;
  }
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (is_there()) {
        num_skipped_last_ = 0;
        return true;
      }
      relax();
    }
    ::sched_yield();  // a writer that was woken on this very processor could not go on
  } while (std::chrono::steady_clock::now() < end);
  num_to_skip_ = num_skipped_last_ = std::min(2 * num_skipped_last_ + 1, kMostSkipped);
  return false;
}

}  // namespace spdl
