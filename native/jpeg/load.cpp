#include "jpeg/load.h"

#include <cstring>
#include <new>

#include "base/file.h"
#include "image/draw.h"
#include "jpeg/decoder.h"

namespace spdl {
namespace {

// What a thread keeps from picture to picture: enough for 12 megapixels, not for a picture of the largest size.
constexpr std::size_t kKeepBytes = std::size_t{16} << 20;

struct Scratch {
  Buffer file;
  JpegDecoder decoder;
  Artist artist;

  void trim() noexcept {
    decoder.trim(kKeepBytes);
    artist.trim(kKeepBytes);
    if (file.capacity() > kKeepBytes) {
      file.release();
    }
  }
};

void load_one(const ImageSource& source, const BatchOptions& options, std::uint8_t* slot, Scratch& scratch) {
  const auto* path = std::get_if<std::string>(&source);
  const auto data = path != nullptr ? read_file(*path, scratch.file) : std::get<1>(source);
  const JpegHeader header = scratch.decoder.open(data, options.orient);
  const auto orientation = static_cast<Orientation>(header.orientation);
  const bool swaps = swaps_sides(orientation);
  const Placement placement = fit_inside(swaps ? header.height : header.width, swaps ? header.width : header.height,
                                         options.width, options.height);
  const Picture picture =
      scratch.decoder.decode(swaps ? placement.height : placement.width, swaps ? placement.width : placement.height,
                             options.format == PixelFormat::kGray);
  scratch.artist.draw(picture, orientation, placement, Canvas{slot, options.width, options.height, options.format});
}

}  // namespace

std::vector<std::optional<Error>> load_jpeg_batch(std::span<const ImageSource> sources, const BatchOptions& options,
                                                  std::uint8_t* out) {
  thread_local Scratch scratch;
  std::vector<std::optional<Error>> outcomes(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    try {
      load_one(sources[i], options, out + i * options.bytes_per_image(), scratch);
    } catch (const Error& error) {
      outcomes[i] = error;
    } catch (const std::bad_alloc&) {
      outcomes[i] = Error(ErrorKind::kDecode, "decode", "out of memory");
    }
    scratch.trim();
  }
  return outcomes;
}

std::size_t close_gaps(std::span<const std::optional<Error>> outcomes, std::size_t bytes_per_image,
                       std::uint8_t* out) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i]) {
      continue;
    }
    if (next != i) {
      std::memcpy(out + next * bytes_per_image, out + i * bytes_per_image, bytes_per_image);
    }
    ++next;
  }
  return next;
}

}  // namespace spdl
