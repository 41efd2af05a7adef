// Pages of Ogg files: whatever the bytes are, the page that is found is not behind the place, and the packets behind it
// follow each other and are no longer than the file.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include <libavutil/crc.h>
}

#include "fuzz/target.h"
#include "media/ogg_pages.h"

namespace {

// With checksums that are right, so that damage gets past them.
std::vector<std::uint8_t> with_checksums(std::span<const std::uint8_t> data) {
  std::vector<std::uint8_t> file(data.begin(), data.end());
  const spdl::BytesAt bytes_at = [&](std::int64_t position, std::size_t size) {
    return std::span<const std::uint8_t>(file).subspan(static_cast<std::size_t>(position)).first(
        std::min(size, file.size() - static_cast<std::size_t>(position)));
  };
  for (std::size_t at = 0; at + 27 <= file.size(); ++at) {
    const auto page = spdl::read_ogg_page(static_cast<std::int64_t>(at), bytes_at);
    if (page && page->num_bytes <= file.size() - at) {
      std::memset(file.data() + at + 22, 0, 4);
      const std::uint32_t crc = av_crc(av_crc_get_table(AV_CRC_32_IEEE), 0, file.data() + at, page->num_bytes);
      for (std::size_t i = 0; i < 4; ++i) {
        file[at + 22 + i] = static_cast<std::uint8_t>(crc >> (8 * (3 - i)));
      }
    }
  }
  return file;
}

}  // namespace

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < 4) {
    return;
  }
  const std::int64_t wanted = data[0] << 8 | data[1];
  const std::int64_t last = data[2] << 8 | data[3];
  const std::vector<std::uint8_t> file = with_checksums(data.subspan(4));
  const auto size = static_cast<std::int64_t>(file.size());
  const spdl::BytesAt bytes_at = [&](std::int64_t position, std::size_t count) {
    const auto from = std::min(static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(size));
    const auto rest = std::span<const std::uint8_t>(file).subspan(static_cast<std::size_t>(from));
    return rest.first(std::min({count, rest.size(), std::size_t{4096}}));
  };
  auto page = spdl::find_ogg_page(size, wanted, last, bytes_at);
  if (page && (page->granule > wanted || page->granule <= 0)) {
    std::abort();
  }
  const bool begins_stream = !page;
  if (begins_stream) {
    page = spdl::find_first_ogg_page(size, 1, bytes_at);
  }
  if (!page) {
    return;
  }
  if (page->position <= 0 || page->end() > size) {
    std::abort();
  }
  const spdl::OggPackets::DurationOf duration_of = [](std::span<const std::uint8_t> packet) {
    return packet.empty() ? std::nullopt : std::optional<std::int64_t>(packet[0]);
  };
  spdl::OggPackets packets(*page, begins_stream, size, bytes_at, duration_of);
  std::optional<std::int64_t> time;
  std::size_t num_bytes = 0;
  while (const auto packet = packets.next()) {
    spdl::fuzz_touch(packet->bytes);
    num_bytes += packet->bytes.size();
    if ((time && packet->first != *time) || packet->num_unwanted < 0 || packet->num_unwanted > packet->duration ||
        num_bytes > file.size()) {
      std::abort();
    }
    time = packet->first + packet->duration;
  }
}
