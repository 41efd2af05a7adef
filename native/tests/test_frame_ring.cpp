// One thread puts and another takes, each with a mapping of its own, as two processes have. ThreadSanitizer sees the two
// sides, and not what passes between the mappings; a wake-up that is lost would never end.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <unistd.h>

#include "shared/frame_ring.h"

TEST_CASE("what one thread puts another one takes, and is woken for") {
  constexpr std::uint32_t kCount = 20000;
  spdl::FrameRing writer(4096);
  const std::unique_ptr<spdl::FrameRing> reader(spdl::FrameRing::attach(::dup(writer.fd())));
  reader->open_reader();
  std::atomic<std::uint32_t> num_rings = 0;
  std::thread putting([&] {
    for (std::uint32_t i = 0; i < kCount;) {
      const std::array<std::uint32_t, 2> message{i, ~i};
      const auto bytes = std::as_bytes(std::span(message));
      const auto outcome = writer.put(std::array{bytes.first(3), bytes.subspan(3)});
      if (outcome == spdl::FrameRing::Put::kRefused) {
        std::this_thread::yield();
        continue;
      }
      ++i;
      if (outcome == spdl::FrameRing::Put::kWaking) {
        ++num_rings;
        num_rings.notify_one();
      }
    }
  });
  std::vector<std::byte> data;
  std::uint32_t next = 0;
  bool is_whole = true;
  while (next < kCount) {
    const std::uint32_t seen = num_rings.load();
    if (!reader->spin() && !reader->has_message_or_announce()) {
      num_rings.wait(seen);  // without an end if a wake-up is lost
    }
    data.clear();
    reader->take(data, 100);
    for (std::size_t at = 0; at < data.size(); at += 8, ++next) {
      std::array<std::uint32_t, 2> message;
      std::memcpy(message.data(), data.data() + at, 8);
      is_whole = is_whole && message[0] == next && message[1] == ~next;
    }
  }
  putting.join();
  CHECK(is_whole);
  CHECK_FALSE(reader->has_message_or_announce());
}
