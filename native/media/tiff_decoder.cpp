#include "media/tiff_decoder.h"

#ifdef SPDL_LIBTIFF

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/watch.h"
#include "image/batch.h"
#include "image/lzw.h"
#include "media/still_frame.h"
#include "media/still_memory.h"
#include "media/stored_samples.h"
#include "media/tiff_file.h"
#include "media/tiff_meaning.h"
#include "media/tiff_rows.h"

namespace spdl {
namespace {

using namespace tiff;

// Decoders may read past the end of what they unpack.
constexpr std::size_t kPadding = 64;
// Bytes of samples for each of `max_pixels`: four of float64. Headers may claim any number of samples.
constexpr std::int64_t kMostPixelBytes = 32;
constexpr std::int64_t kAlwaysAllowedBytes = std::int64_t{64} << 20;

// Unpacks a strip or tile of LZW at once, which libtiff does in half again the time. False where libtiff has to: old-style codes,
// predictors, samples in the other byte order, damage.
bool unpack_at_once(TIFF& tiff, const Memory& memory, const Facts& facts, std::uint32_t number, std::span<std::uint8_t> out) {
  if (facts.compression != COMPRESSION_LZW || field<std::uint16_t>(tiff, TIFFTAG_PREDICTOR, 1) != 1 ||
      field<std::uint16_t>(tiff, TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) != FILLORDER_MSB2LSB ||
      (facts.bits > 8 && TIFFIsByteSwapped(&tiff) != 0)) {
    return false;
  }
  int error = 0;
  const std::uint64_t at = TIFFGetStrileOffsetWithErr(&tiff, number, &error);
  const std::uint64_t size = error == 0 ? TIFFGetStrileByteCountWithErr(&tiff, number, &error) : 0;
  if (error != 0 || at > memory.data.size() || size > memory.data.size() - at) {
    return false;
  }
  return unpack_lzw(memory.data.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)), LzwKind::kTiff, kLzwBits,
                    out);
}

// Calls `take(plane, left, top, width, rows, data, row_bytes)` for each strip or tile. `width` is that of the block.
template <class Take>
void read_blocks(TIFF& tiff, const Memory& memory, const Facts& facts, std::int64_t most_bytes, Take&& take) {
  const auto width = field<std::uint32_t>(tiff, facts.is_tiled ? TIFFTAG_TILEWIDTH : TIFFTAG_IMAGEWIDTH);
  auto rows = field<std::uint32_t>(tiff, facts.is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, facts.height);
  rows = facts.is_tiled ? rows : std::min(rows, facts.height);
  const tmsize_t row_bytes = facts.is_tiled ? TIFFTileRowSize(&tiff) : TIFFScanlineSize(&tiff);
  const tmsize_t whole_bytes = facts.is_tiled ? TIFFTileSize(&tiff) : TIFFVStripSize(&tiff, rows);
  if (width < 1 || rows < 1 || row_bytes < 1 || whole_bytes < 1) {
    refuse(memory.error.empty() ? "it is damaged: its strips or tiles have no size" : memory.error);
  }
  if (whole_bytes > most_bytes || width > std::numeric_limits<int>::max() / 2 || rows > std::numeric_limits<int>::max() / 2) {
    throw Error(ErrorKind::kImageTooLarge, "decode",
                "its strips or tiles have " + std::to_string(whole_bytes) + " bytes, more than max_pixels allows");
  }
  Buffer buffer;
  std::uint8_t* const block = buffer.reserve(static_cast<std::size_t>(whole_bytes) + kPadding);
  Watch watch;
  watch.restart();
  const unsigned num_planes = facts.is_planar ? facts.samples : 1;
  for (unsigned plane = 0; plane < num_planes; ++plane) {
    for (std::uint32_t top = 0; top < facts.height; top += rows) {
      for (std::uint32_t left = 0; left < facts.width; left += width) {
        const std::uint32_t num_rows = facts.is_tiled ? rows : std::min(rows, facts.height - top);
        const auto sample = static_cast<std::uint16_t>(plane);
        const tmsize_t size = facts.is_tiled ? whole_bytes : TIFFVStripSize(&tiff, num_rows);
        const std::uint32_t number = facts.is_tiled ? TIFFComputeTile(&tiff, left, top, 0, sample)
                                                    : TIFFComputeStrip(&tiff, top, sample);
        const tmsize_t got = unpack_at_once(tiff, memory, facts, number, {block, static_cast<std::size_t>(size)}) ? size
                             : facts.is_tiled ? TIFFReadEncodedTile(&tiff, number, block, size)
                                              : TIFFReadEncodedStrip(&tiff, number, block, size);
        if (got != size || !memory.error.empty() || !memory.warning.empty()) {
          refuse(!memory.error.empty()     ? memory.error
                 : !memory.warning.empty() ? memory.warning
                                           : "the data ends before a picture is complete");
        }
        take(plane, static_cast<int>(left), static_cast<int>(top), static_cast<int>(width), static_cast<int>(num_rows), block,
             row_bytes);
        if (watch.is_over()) {
          watch.throw_if_over("decode");
        }
      }
    }
  }
}

av::FramePtr new_picture(const Facts& facts, AVPixelFormat format) {
  av::FramePtr frame = av::new_frame();
  frame->format = format;
  frame->width = static_cast<int>(facts.width);
  frame->height = static_cast<int>(facts.height);
  frame->color_range = AVCOL_RANGE_JPEG;
  allocate_pixels(*frame);
  return frame;
}

// Calls `put(plane, left, y, width, row)` for each row of each strip or tile, as far as it lies in the picture.
template <class Put>
void read_rows(TIFF& tiff, const Memory& memory, const Facts& facts, std::int64_t most_bytes, Put&& put) {
  const auto width = static_cast<int>(facts.width);
  const auto height = static_cast<int>(facts.height);
  read_blocks(tiff, memory, facts, most_bytes,
              [&](unsigned plane, int left, int top, int columns, int rows, const std::uint8_t* data, tmsize_t row_bytes) {
                for (int y = top; y < std::min(top + rows, height); ++y, data += row_bytes) {
                  put(plane, left, y, std::min(columns, width - left), data);
                }
              });
}

av::FramePtr read_ycbcr(TIFF& tiff, const Memory& memory, const Facts& facts, std::int64_t most_bytes) {
  const AVPixelFormat format = format_of_ycbcr(facts);
  if (format == AV_PIX_FMT_NONE) {
    refuse("its YCbCr of " + std::to_string(facts.bits) + " bits with chroma subsampled by " + std::to_string(facts.across) +
           "x" + std::to_string(facts.down) + (facts.is_planar ? " in planes" : "") + " is not supported");
  }
  av::FramePtr frame = new_picture(facts, format);
  set_colours(tiff, *frame);
  if (facts.across * facts.down == 1) {
    TiffRows rows(*frame, {8, 3, facts.is_planar}, {{0, {}}, {1, {}}, {2, {}}});
    read_rows(tiff, memory, facts, most_bytes,
              [&](unsigned plane, int x, int y, int width, const std::uint8_t* row) { rows.put(plane, x, y, width, row); });
    return frame;
  }
  read_blocks(tiff, memory, facts, most_bytes,
              [&](unsigned, int left, int top, int width, int rows, const std::uint8_t* data, tmsize_t) {
                put_blocks(*frame, left, top, width, rows, facts.across, facts.down, data);
              });
  return frame;
}

av::FramePtr read_levels(TIFF& tiff, const Memory& memory, const Facts& facts, std::int64_t most_bytes) {
  const AVPixelFormat format = format_of_levels(facts);
  av::FramePtr frame = new_picture(facts, format);
  TiffRows rows(*frame, {facts.bits, facts.samples, facts.is_planar}, components_of(tiff, facts, format));
  read_rows(tiff, memory, facts, most_bytes,
            [&](unsigned plane, int x, int y, int width, const std::uint8_t* row) { rows.put(plane, x, y, width, row); });
  if (facts.meaning == PHOTOMETRIC_SEPARATED) {
    frame = without_inks(*frame);
    frame->color_range = AVCOL_RANGE_JPEG;
  }
  return frame;
}

av::FramePtr read_stored(TIFF& tiff, const Memory& memory, const Facts& facts, ElementType type, std::int64_t most_bytes) {
  const StoredSamples samples{type, facts.samples};
  av::FramePtr frame = new_stored_samples(samples, static_cast<int>(facts.width), static_cast<int>(facts.height));
  const auto size = static_cast<std::size_t>(type.size);
  const auto pixel = static_cast<std::size_t>(samples.pixel_bytes());
  read_rows(tiff, memory, facts, most_bytes, [&](unsigned plane, int x, int y, int width, const std::uint8_t* row) {
    std::uint8_t* out = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0] + static_cast<std::size_t>(x) * pixel;
    if (!facts.is_planar) {
      std::memcpy(out, row, static_cast<std::size_t>(width) * pixel);
      return;
    }
    out += plane * size;
    for (int i = 0; i < width; ++i, out += pixel, row += size) {
      std::memcpy(out, row, size);
    }
  });
  return frame;
}

void copy_profile(TIFF& tiff, AVFrame& frame) {
  std::uint32_t size = 0;
  const void* profile = nullptr;
  if (TIFFGetField(&tiff, TIFFTAG_ICCPROFILE, &size, &profile) != 0) {
    add_profile(frame, {static_cast<const std::uint8_t*>(profile), size});
  }
}

}  // namespace

std::string libtiff_version() {
  const std::string_view text = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0\nCopyright …"
  const std::size_t begin = text.find_first_of("0123456789");
  return begin == std::string_view::npos ? "unknown" : std::string(text.substr(begin, text.find('\n') - begin));
}

const char* libtiff_path() noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&TIFFGetVersion), &found) != 0 && found.dli_fname != nullptr
             ? found.dli_fname
             : "";
}

std::optional<Still> decode_tiff(Bytes data, std::int64_t max_pixels, bool keeps_samples) {
  // Others may write to the caller's memory meanwhile, and libtiff reads fields more than once.
  Buffer copy;
  std::uint8_t* const bytes = copy.reserve(data.size() + kPadding);
  std::copy(data.begin(), data.end(), bytes);
  std::memset(bytes + data.size(), 0, kPadding);
  Memory memory{.data = {bytes, data.size()}};
  const TiffPtr handle = tiff::open(memory);
  const Facts facts = inspect(*handle, memory.data);
  const std::string damage = std::exchange(memory.error, {});  // in fields that it can do without, if in any
  require_pixels(facts.width, facts.height, max_pixels);
  if (facts.width < 1 || facts.height < 1 || facts.bits < 1 || facts.samples < 1) {
    refuse(damage.empty() ? "it is damaged: a picture has no size" : damage);
  }
  if (TIFFIsCODECConfigured(facts.compression) == 0) {
    const TIFFCodec* codec = TIFFFindCODEC(facts.compression);
    refuse("its compression, " + (codec != nullptr ? std::string(codec->name) : std::to_string(facts.compression)) +
           ", is not part of this build of libtiff");
  }
  const std::int64_t most_bytes = std::max(max_pixels * kMostPixelBytes, kAlwaysAllowedBytes);
  const std::int64_t pixels = std::int64_t{facts.width} * facts.height;
  const std::int64_t pixel_bytes = (std::int64_t{facts.bits} * facts.samples + 7) / 8;
  if (pixel_bytes > most_bytes / pixels) {
    throw Error(ErrorKind::kImageTooLarge, "decode",
                "it has " + std::to_string(facts.samples) + " samples for each of " + std::to_string(pixels) +
                    " pixels, more than max_pixels allows");
  }
  const std::string reason = reason_against_levels(*handle, facts);
  const bool has_more = facts.num_extras() > 0 && !facts.is_ycbcr() && facts.meaning != PHOTOMETRIC_PALETTE;
  const auto type = element_of(facts);
  if (!reason.empty() && !(keeps_samples && type)) {
    refuse("it is a TIFF whose samples are " + reason + ", and no levels of gray or colour" +
           (type ? "; load_image(…, filter_desc=None) returns them as they are" : ""));
  }
  Still still;
  still.lease = memory_budget().take(static_cast<std::size_t>(pixels * (pixel_bytes + 8)));
  if (keeps_samples && type && (!reason.empty() || has_more)) {
    still.frame = read_stored(*handle, memory, facts, *type, most_bytes);
    return still;
  }
  still.frame = facts.is_ycbcr() ? read_ycbcr(*handle, memory, facts, most_bytes)
                                 : read_levels(*handle, memory, facts, most_bytes);
  copy_profile(*handle, *still.frame);
  correct_still(*still.frame, AV_CODEC_ID_TIFF, memory.data);
  return still;
}

}  // namespace spdl

#else

namespace spdl {

std::string libtiff_version() { return {}; }

const char* libtiff_path() noexcept { return ""; }

std::optional<Still> decode_tiff(Bytes, std::int64_t, bool) { return std::nullopt; }

}  // namespace spdl

#endif
