// A ring in shared memory for small messages from one process to another, sent without a system call.
//
// One side puts, the other takes. A message becomes visible as a whole when `head` moves past it. So a writer that is
// killed at any instruction leaves no partial message, and the reader finds all earlier ones. `put` never waits: if
// there is no room, it returns that, and the message is sent another way, which both sides count (`count_other`). Each
// message in the ring carries the number of messages sent the other way before it, and is taken only after those.
//
// Waiting for messages uses the other way too. The reader announces that it will wait, checks again, and waits there;
// `put` tells a writer that finds the announcement to wake the reader. Both steps are sequentially consistent, so at
// least one side sees the other.
//
// Thread-safe. In a forked child there is no room and there are no messages: the memory belongs to the parent.

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
  // Maps the ring of another process, and takes over the descriptor. Throws std::system_error, also (EINVAL) for a file
  // that is not a ring.
  static FrameRing* attach(int fd);
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  int fd() const noexcept { return file_.fd(); }  // -1 when closed
  // Closes the descriptor. The mapping stays. From then on `put` refuses messages; a reader does not need the descriptor.
  void close_file() noexcept;

  // -- the writing side

  enum class Put {
    kRefused,  // no room, or no open reader
    kDone,
    kWaking,  // done, and the caller must wake the reader
  };
  // Appends one message, made of all pieces.
  Put put(std::span<const std::span<const std::byte>> pieces);
  // The largest message.
  std::size_t max_size() const noexcept { return capacity_ / 8; }

  // -- both sides

  // Records that `count` messages were sent or received the other way.
  void count_other(std::uint32_t count) noexcept;

  // -- the reading side

  // Starts accepting messages. Until then `put` refuses them.
  void open_reader() noexcept;
  // Stops accepting messages. Idempotent.
  void close_reader() noexcept;
  // Appends available messages to `data`, whole and in order, until it has grown by at least `enough` bytes. Throws
  // std::system_error (EBADMSG) if the ring is damaged.
  void take(std::vector<std::byte>& data, std::size_t enough);
  // Whether a message can be taken. If not, announces that the reader will wait.
  bool has_message_or_announce();
  // Waits for a message for some microseconds without blocking, unless recent waits were in vain. True if there is one.
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
  // Guarded by the mutex. The positions are this side's copies: the other side cannot change them.
  std::uint64_t position_ = 0;  // of the head for a writer, of the tail for a reader
  std::uint64_t known_tail_ = 0;  // for a writer: the reader has come at least this far
  std::uint32_t num_other_ = 0;
  std::size_t num_reserved_ = 0;
  bool is_announced_ = false;
  // Of `spin`, which one thread calls.
  std::uint32_t num_to_skip_ = 0;
  std::uint32_t num_skipped_last_ = 0;
};

}  // namespace spdl
