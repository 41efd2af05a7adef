// Chains of MPEG audio frames: whatever the bytes are, a frame that is found begins with a header, and is found again.

#include <algorithm>
#include <cstdlib>

#include "fuzz/target.h"
#include "media/mp3_index.h"

void fuzz(std::span<const std::uint8_t> data) {
  if (data.size() < spdl::kMpegAudioHeader) {
    return;
  }
  const spdl::BytesAt bytes_at = [&](std::int64_t position, std::size_t size) {
    const auto rest = data.subspan(std::min(static_cast<std::size_t>(position), data.size()));
    return rest.first(std::min(size, rest.size()));
  };
  spdl::Mp3Index index(0, data.first<spdl::kMpegAudioHeader>());
  constexpr std::int64_t kMany = 100'000;
  index.find(data[3], bytes_at);
  const bool is_whole = !index.find(kMany, bytes_at);
  if (!is_whole || index.num_found() > static_cast<std::int64_t>(data.size())) {
    std::abort();
  }
  std::int64_t end = 0;
  for (std::int64_t number = 0; number < index.num_found(); ++number) {
    const auto position = index.find(number, bytes_at);
    const auto bytes = position ? bytes_at(*position, spdl::kMpegAudioHeader) : data.first(0);
    if (bytes.size() < spdl::kMpegAudioHeader || *position != end) {
      std::abort();
    }
    end += static_cast<std::int64_t>(spdl::parse_mpeg_audio(bytes.first<spdl::kMpegAudioHeader>())->num_bytes);
  }
}
