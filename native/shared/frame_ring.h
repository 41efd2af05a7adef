// A ring in shared memory for small messages of one process to another: no system call carries them.
//
// One side puts, the other takes. A message becomes visible as a whole when `head` moves behind it, so a writer that is
// killed at any instruction leaves nothing torn, and the reader finds all that was put before. There is no waiting for
// room: where there is none, `put` says so, and the message goes another way, which both sides count (`count_other`):
// each message of the ring carries how many went the other way before it, and is taken only after those.
//
// Waiting for messages goes over the other way too. The reader announces it, looks once more, and waits there; the
// writer that finds the announcement is told to wake it. Both are sequentially consistent, so one of the two sees the
// other.
//
// Thread-safe. In a forked child there is no room, and nothing to take: the memory is the parent's.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "shared/anonymous_file.h"

namespace spdl {

class FrameRing {
 public:
  // Makes the file, with room for `capacity` bytes: a power of two, a page or more. Throws std::system_error.
  explicit FrameRing(std::size_t capacity);
  // Maps what another process made, and takes the descriptor over. Throws std::system_error, also (EINVAL) for a file
  // that is no ring.
  static FrameRing* attach(int fd);
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  int fd() const noexcept { return file_.fd(); }  // -1 when closed
  // Nothing is put any more. The reader does not need it.
  void close_file() noexcept;

  // -- the writing side

  enum class Put {
    kRefused,  // there is no room, no reader yet, or none any more
    kDone,
    kWaking,  // done, and the reader waits to be woken
  };
  // Appends one message, made of all pieces.
  Put put(std::span<const std::span<const std::byte>> pieces);
  // The largest message.
  std::size_t max_size() const noexcept { return capacity_ / 8; }

  // -- both sides

  // So many messages went, or came, the other way.
  void count_other(std::uint32_t count) noexcept;

  // -- the reading side

  // From now on messages are taken. Until then `put` refuses them.
  void open_reader() noexcept;
  // None will be taken any more. Idempotent.
  void close_reader() noexcept;
  // Appends the messages that are there to `data`, whole and in order: until it has grown by `enough` bytes. Throws
  // std::system_error (EBADMSG) if the ring is damaged.
  void take(std::vector<std::byte>& data, std::size_t enough);
  // A message can be taken. If not, the reader is announced to wait.
  bool has_message_or_announce();
  // Waits for a message for a few microseconds without a system call, unless that has not helped of late. True if there
  // is one.
  bool spin();

 private:
  struct Header;
  struct Record;

  FrameRing(AnonymousFile file, std::size_t file_size);
  void map(std::size_t file_size);
  bool is_inherited() const noexcept;
  bool reserve_until(std::uint64_t position) noexcept;
  std::uint64_t copy_in(std::uint64_t position, std::span<const std::byte> piece) noexcept;
  bool has_message() const noexcept;  // with the mutex

  AnonymousFile file_;
  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t capacity_ = 0;
  std::uint32_t generation_ = 0;
  Header* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::mutex mutex_;
  // Guarded by the mutex. The positions are this side's own: what the other one writes cannot change them.
  std::uint64_t position_ = 0;  // of the head for a writer, of the tail for a reader
  std::uint64_t known_tail_ = 0;  // of a writer: so far the reader has come at least
  std::uint32_t num_other_ = 0;
  std::size_t num_reserved_ = 0;
  bool is_announced_ = false;
  // Of `spin`, which one thread calls.
  std::uint32_t num_to_skip_ = 0;
  std::uint32_t num_skipped_last_ = 0;
};

}  // namespace spdl
