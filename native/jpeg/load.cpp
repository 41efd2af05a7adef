#include "jpeg/load.h"

#include <cstring>
#include <new>

#include "base/file.h"
#include "image/draw.h"
#include "image/sniff.h"
#include "jpeg/decoder.h"

namespace spdl {
namespace {

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

// A source that only the general way can load, where there is none and nobody said that there is none.
struct NeedsGeneralWay {};

void load_generally(const ImageSource& source, std::span<const std::uint8_t> data, const BatchOptions& options,
                    const WayOut& way_out, const std::string& what, std::uint8_t* slot) {
  if (way_out.way != nullptr) {
    if (auto error = way_out.way->load(source, data, options, slot)) {
      throw *std::move(error);
    }
  } else if (way_out.why_none) {
    throw Error(ErrorKind::kNativeLibrary, "decode", what + ", which needs FFmpeg: " + *way_out.why_none);
  } else {
    throw NeedsGeneralWay{};
  }
}

std::span<const std::uint8_t> read(const std::string& path, const WayOut& way_out, Buffer& into) {
  try {
    return read_file(path, into);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kSourceNotFound || !looks_like_url(path)) {
      throw;
    }
    if (way_out.way == nullptr && !way_out.why_none) {
      throw NeedsGeneralWay{};
    }
    if (way_out.way == nullptr) {
      throw Error(ErrorKind::kNativeLibrary, "open", "a URL needs FFmpeg: " + *way_out.why_none);
    }
  }
  std::span<const std::uint8_t> data;
  if (auto error = way_out.way->read(path, into, data)) {
    throw *std::move(error);
  }
  return data;
}

void load_one(const ImageSource& source, const BatchOptions& options, const WayOut& way_out, std::uint8_t* slot,
              Scratch& scratch) {
  const auto* path = std::get_if<std::string>(&source);
  const auto data = path != nullptr ? read(*path, way_out, scratch.file) : std::get<1>(source);
  if (data.empty()) {
    throw Error(ErrorKind::kOpen, "open", "it is empty");
  }
  const std::string_view format = sniff_format(data);
  if (format != "JPEG") {
    const std::string what =
        format.empty() ? "it is of no format that is known here" : "it looks like " + std::string(format);
    load_generally(source, data, options, way_out, what, slot);
    return;
  }
  try {
    const JpegHeader header = scratch.decoder.open(data, options.orient);
    const auto orientation = static_cast<Orientation>(header.orientation);
    const bool swaps = swaps_sides(orientation);
    const Placement placement = fit_inside(swaps ? header.height : header.width, swaps ? header.width : header.height,
                                           options.width, options.height);
    const Picture picture =
        scratch.decoder.decode(swaps ? placement.height : placement.width, swaps ? placement.width : placement.height,
                               options.format == PixelFormat::kGray);
    scratch.artist.draw(picture, orientation, placement, Canvas{slot, options.width, options.height, options.format});
  } catch (const UnsupportedJpeg& error) {
    load_generally(source, data, options, way_out, "it is a JPEG that libjpeg-turbo does not decode: " + error.reason(),
                   slot);
  }
}

}  // namespace

std::optional<std::vector<std::optional<Error>>> load_batch(std::span<const ImageSource> sources,
                                                            const BatchOptions& options, const WayOut& way_out,
                                                            std::uint8_t* out) {
  thread_local Scratch scratch;
  std::vector<std::optional<Error>> outcomes(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    try {
      load_one(sources[i], options, way_out, out + i * options.bytes_per_image(), scratch);
    } catch (const Error& error) {
      outcomes[i] = error;
    } catch (const std::bad_alloc&) {
      outcomes[i] = Error(ErrorKind::kDecode, "decode", "out of memory");
    } catch (const NeedsGeneralWay&) {
      scratch.trim();
      return std::nullopt;
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
