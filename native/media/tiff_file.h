// An open TIFF file in memory, and what its fields say of the first picture. Only files of media/tiff_*.cpp include this.
//
// Nothing that libtiff says is printed: errors and warnings are kept for the file alone. One thread per object.

#pragma once

#include <tiffio.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "image/bytes.h"

namespace spdl::tiff {

// The data of one file as libtiff reads it, and what it said.
struct Memory {
  Bytes data;
  std::uint64_t position = 0;
  std::string error = {};    // the first one
  std::string warning = {};  // the first one about damaged data
};

// Throws Error(kDecode).
[[noreturn]] void refuse(const std::string& reason);

struct CloseTiff {
  void operator()(TIFF* tiff) const noexcept { TIFFClose(tiff); }
};
using TiffPtr = std::unique_ptr<TIFF, CloseTiff>;

// `memory` must outlive the result. Throws Error(kDecode).
TiffPtr open(Memory& memory);

template <class Value>
Value field(TIFF& tiff, std::uint32_t tag, Value otherwise = {}) noexcept {
  Value value{};
  return TIFFGetFieldDefaulted(&tiff, tag, &value) != 0 ? value : otherwise;
}

struct Facts {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint16_t bits = 1;
  std::uint16_t samples = 1;
  std::uint16_t kind = SAMPLEFORMAT_UINT;
  std::uint16_t meaning = PHOTOMETRIC_MINISBLACK;
  std::uint16_t compression = COMPRESSION_NONE;
  bool is_planar = false;
  bool is_tiled = false;
  unsigned num_colours = 1;
  std::optional<unsigned> alpha;  // the sample that is alpha
  int across = 1;                 // samples of luma for one of chroma
  int down = 1;

  unsigned num_extras() const noexcept { return samples - std::min<unsigned>(samples, num_colours + (alpha ? 1 : 0)); }
  bool is_ycbcr() const noexcept { return meaning == PHOTOMETRIC_YCBCR; }
};

// Prepares the file, too: JPEG is unpacked to RGB. Throws Error(kDecode).
Facts inspect(TIFF& tiff, Bytes data);

}  // namespace spdl::tiff
