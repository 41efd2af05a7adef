// FLV files: whatever the bytes are, a tag that is found lies inside, is of the stream and not too late; and the search ends.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "media/flv_tags.h"

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < 2) {
    return;
  }
  // Files that are worth a bisection are larger than what a fuzzer makes.
  const std::size_t num_copies = 1 + data[0] % 64;
  const std::int64_t wanted = data[1] * 100;
  std::vector<std::uint8_t> file = {'F', 'L', 'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0};
  for (std::size_t i = 0; i < num_copies; ++i) {
    file.insert(file.end(), data.begin() + 2, data.end());
  }
  int num_reads = 0;
  const spdl::BytesAt bytes_at = [&](std::int64_t position, std::size_t size) {
    if (position < 0) {
      std::abort();
    }
    ++num_reads;
    const auto rest = std::span<const std::uint8_t>(file).subspan(std::min(static_cast<std::size_t>(position), file.size()));
    return rest.first(std::min(size, rest.size()));
  };
  for (const auto stream : {spdl::FlvStream::kAudio, spdl::FlvStream::kVideo}) {
    const auto place = spdl::find_flv_tag(stream, wanted, static_cast<std::int64_t>(file.size()), bytes_at);
    if (place && (place->position < 13 || place->dts > wanted ||
                  bytes_at(place->position, 1)[0] != static_cast<std::uint8_t>(stream))) {
      std::abort();
    }
  }
  if (num_reads > 1'000'000) {
    std::abort();
  }
}
