#include "shared/area.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <new>
#include <system_error>

#include "base/buffer.h"
#include "shared/process.h"

namespace spdl {

// What both processes must agree on. They run the same build; the magic number detects a wrong descriptor.
struct Area::Header {
  std::uint64_t magic;
  std::uint64_t size;
  std::uint64_t num_blocks;
  alignas(64) std::atomic<std::uint32_t> is_waited_for;
};

namespace {

constexpr std::uint64_t kMagic = 0x3161657261646c73;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "locks of a library are not shared between processes");

constexpr std::size_t num_rows(std::size_t bits) noexcept { return (bits + 63) / 64; }

std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

[[noreturn]] void refuse(int code, const char* what) { throw std::system_error(code, std::generic_category(), what); }

std::size_t control_size(std::size_t header_size, std::size_t words_size, std::size_t num_blocks) {
  const std::size_t rows = num_rows(num_blocks);
  return round_up(header_size + words_size + round_up(num_rows(rows) * 8, 64) + round_up(rows * 8, 64) + num_blocks * 4,
                  page_size());
}

}  // namespace

Area::Area(std::size_t size, std::uint32_t num_blocks, bool has_bell) : generation_(fork_generation()) {
  const std::size_t control = control_size(sizeof(Header), kNumWords * sizeof(Word), num_blocks);
  const std::size_t data = round_up(size, page_size());
  if (data < size || data > SIZE_MAX / 2 || num_blocks > kMaxBlocks) {
    refuse(EFBIG, "make shared memory");
  }
  file_ = AnonymousFile::create(control + data);
  if (const int code = file_.reserve(0, control); code != 0) {
    refuse(code, "reserve shared memory");
  }
  if (has_bell) {
    bell_.open();
  }
  map(control + data);
  header_ = ::new (base_) Header{.magic = kMagic, .size = size, .num_blocks = num_blocks, .is_waited_for = 0};
  place(num_blocks);
}

Area::Area(int fd, int bell_read_fd, int bell_write_fd, bool maps_data)
    : file_(fd), bell_(bell_read_fd, bell_write_fd), maps_data_(maps_data), generation_(fork_generation()) {
  const std::size_t file_size = file_.size();
  if (file_size < page_size()) {
    refuse(EINVAL, "map shared memory");
  }
  map(maps_data ? file_size : page_size());
  header_ = std::launder(reinterpret_cast<Header*>(base_));
  const std::uint64_t num_blocks = header_->num_blocks;
  const std::size_t control =
      num_blocks > kMaxBlocks ? 0 : control_size(sizeof(Header), kNumWords * sizeof(Word), num_blocks);
  const bool fits =
      header_->magic == kMagic && control != 0 && control + round_up(header_->size, page_size()) == file_size;
  if (!fits) {
    ::munmap(base_, mapped_);
    refuse(EINVAL, "map shared memory");
  }
  if (!maps_data) {
    ::munmap(base_, mapped_);
    map(control);
    header_ = std::launder(reinterpret_cast<Header*>(base_));
  }
  place(static_cast<std::uint32_t>(num_blocks));
}

// The file is sparse: only written pages take memory.
void Area::map(std::size_t file_size) {
  void* address =
      ::mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.fd(), 0);
  if (address == MAP_FAILED) {
    refuse(errno, "map shared memory");
  }
  base_ = static_cast<std::uint8_t*>(address);
  mapped_ = file_size;
}

// A new file is all zeros, which is the initial state of these objects, so they need no constructor.
void Area::place(std::uint32_t num_blocks) noexcept {
  const std::size_t rows = num_rows(num_blocks);
  std::uint8_t* at = base_ + sizeof(Header);
  words_ = reinterpret_cast<Word*>(at);
  at += kNumWords * sizeof(Word);
  summaries_ = reinterpret_cast<std::atomic<std::uint64_t>*>(at);
  at += round_up(num_rows(rows) * 8, 64);
  freed_ = reinterpret_cast<std::atomic<std::uint64_t>*>(at);
  at += round_up(rows * 8, 64);
  counts_ = reinterpret_cast<std::atomic<std::uint32_t>*>(at);
  num_blocks_ = num_blocks;
  num_summaries_ = static_cast<std::uint32_t>(num_rows(rows));
  size_ = header_->size;
  data_ = base_ + control_size(sizeof(Header), kNumWords * sizeof(Word), num_blocks);
}

Area::~Area() { ::munmap(base_, mapped_); }

bool Area::is_inherited() const noexcept { return generation_ != fork_generation(); }

std::shared_ptr<Area> Area::duplicate() const {
  auto area = std::make_shared<Area>(file_.duplicate().release(), -1, -1, maps_data_);
  area->bell_.open_as(bell_);
  return area;
}

std::uint32_t Area::num_used() const noexcept {
  std::uint32_t used = 0;
  for (std::uint32_t block = 0; block < num_blocks_; ++block) {
    used += counts_[block].load(std::memory_order_relaxed) != 0 ? 1 : 0;
  }
  return used;
}

bool Area::has(const void* address, std::size_t num_bytes) const noexcept {
  const auto* bytes = static_cast<const std::uint8_t*>(address);
  const std::less_equal<const std::uint8_t*> is_up_to;  // unlike <=, it orders pointers to different objects
  return is_up_to(data_, bytes) && is_up_to(bytes, data_ + size_) &&
         num_bytes <= static_cast<std::size_t>(data_ + size_ - bytes);
}

void Area::close() noexcept {
  file_.close();
  if (!is_inherited()) {  // else a thread that does not exist here may have held the bell's lock
    bell_.close();
  }
}

void Area::drop(std::uint32_t block) noexcept {
  if (is_inherited()) {
    return;
  }
  // Release: what this side read or wrote comes before what the owner does with the memory.
  if (counts_[block].fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  freed_[block / 64].fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_release);
  summaries_[block / 4096].fetch_or(std::uint64_t{1} << (block / 64 % 64), std::memory_order_release);
  ring();
}

void Area::announce_wait() const noexcept {
  header_->is_waited_for.store(1, std::memory_order_relaxed);
  // Between the announcement and the look at the state, and in `ring` the other way round: one of the two sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Area::ring() noexcept {
  if (is_inherited()) {
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header_->is_waited_for.load(std::memory_order_relaxed) != 0 &&
      header_->is_waited_for.exchange(0, std::memory_order_relaxed) != 0) {
    bell_.ring();
  }
}

}  // namespace spdl
