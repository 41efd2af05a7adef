// Packets that were bytes: whatever they are, what comes out can be asked, copied and written again.

#include <cstdlib>

#include "fuzz/parts.h"
#include "fuzz/target.h"
#include "media/packets.h"
#include "media/serialize.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::FuzzParts parts = spdl::split(data);
  const spdl::Packets packets = spdl::deserialize(parts.joined, parts.beside);
  for (const auto& packet : packets.packets) {
    spdl::fuzz_touch({packet->data, static_cast<std::size_t>(packet->size) + AV_INPUT_BUFFER_PADDING_SIZE});
    static_cast<void>(spdl::is_in_window(packets, *packet));
  }
  static_cast<void>(spdl::packet_timestamps(packets));
  static_cast<void>(spdl::display_timestamps(packets));
  const spdl::Packets copy = packets.clone();
  std::vector<std::uint8_t> again(spdl::serialized_size(copy));
  spdl::serialize(copy, again.data());
  if (spdl::deserialize(spdl::fuzz_part(again), {}).packets.size() != packets.packets.size()) {
    std::abort();
  }
  const spdl::Parts apart = spdl::take_apart(copy);
  if (spdl::deserialize(apart.joined, apart.beside).packets.size() != packets.packets.size()) {
    std::abort();
  }
}
