// Packets that were bytes: whatever they are, what comes out can be asked, copied and written again.

#include <cstdlib>

#include "fuzz/serialized.h"
#include "fuzz/target.h"
#include "media/packets.h"
#include "media/serialize_packets.h"

void fuzz(std::span<const std::uint8_t> data) {
  const spdl::FuzzInput input = spdl::split(data);
  const spdl::Packets packets = spdl::deserialize_packets(input.in_band, input.out_of_band);
  for (const auto& packet : packets.packets) {
    spdl::fuzz_touch({packet->data, static_cast<std::size_t>(packet->size) + AV_INPUT_BUFFER_PADDING_SIZE});
    static_cast<void>(spdl::is_in_window(packets, *packet));
  }
  static_cast<void>(spdl::packet_timestamps(packets));
  static_cast<void>(spdl::display_timestamps(packets));
  const spdl::Packets copy = packets.clone();
  std::vector<std::uint8_t> again(spdl::serialized_size(copy));
  spdl::serialize(copy, again.data());
  if (spdl::deserialize_packets(spdl::fuzz_bytes(again), {}).packets.size() != packets.packets.size()) {
    std::abort();
  }
  const spdl::Serialized sent = spdl::serialize(copy);
  if (spdl::deserialize_packets(sent.in_band, sent.out_of_band).packets.size() != packets.packets.size()) {
    std::abort();
  }
}
