// One picture in libjpeg's decoder: its state, its source, and how its errors leave it.
//
// libjpeg reports an error by a callback that must not return. Here the callback leaves by longjmp, so every call of libjpeg that
// may fail goes through `guard` or `try_call`. One thread per object.

#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <span>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

#include "base/buffer.h"
#include "base/error.h"
#include "image/rect.h"
#include "jpeg/decoder.h"

namespace spdl {

// A range of the picture's minimum coded units (ITU-T T.81, 4.8), in one direction.
struct UnitRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct JpegSession {
  // So that the rows stay in the second-level cache until they are split into planes, even at 12 megapixels.
  static constexpr std::size_t kRowsPerCall = 8;

  struct ErrorManager : jpeg_error_mgr {
    std::jmp_buf on_error;
    char text[JMSG_LENGTH_MAX + 64] = "";
  };

  // Data in memory. libjpeg asks for more to fill its bit buffer even where it needs no more, so the end of the data is an end
  // marker first, and damage only when bits beyond it are used (JWRN_HIT_MARKER) or scans may be missing.
  struct MemorySource : jpeg_source_mgr {
    bool ended = false;
    unsigned int first_restart = 0;  // number of the first restart marker, where the data begins behind others
  };

  jpeg_decompress_struct info{};
  ErrorManager errors{};
  jpeg_progress_mgr progress{};
  MemorySource source{};
  std::array<std::vector<JSAMPROW>, 4> rows;
  bool created = false;

  JpegSession();
  ~JpegSession() { close(); }
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  // libjpeg keeps the tables of one picture for the next. A picture must not depend on what came before, so each gets
  // its own decoder; that costs about a microsecond. The data must outlive the decoding.
  void create(std::span<const std::uint8_t> data);
  void close() noexcept;

  // A file that ends early in its first scan is noticed when the missing bits are read; later scans would be missed.
  // Throws Error(kDecode).
  void check_scans();

  // Rows of units that cover the region.
  UnitRange rows_of(const Rect& region) const noexcept;
  // Skips the inverse transform for columns of units outside the region, and returns the columns that will be decoded.
  UnitRange crop_columns(const Rect& region);

  // For pixels: crops their columns to the region and what it takes to enlarge its chroma, and returns the first of them.
  int crop_pixels(const Rect& region);
  // Skips `count` rows of pixels, without computing them where that is exact.
  void skip_rows(int count, Buffer& memory);
  // Reads rows of pixels into `memory`, where `rows[0]` then points to them: at most `at_most` and kRowsPerCall, at least
  // one. Returns their number. They can be read to the end of a kernel's block.
  std::size_t read_rows(std::size_t at_most, Buffer& memory);

  // Whether the pixels of a part equal those of the whole picture. They do not if blocks are smoothed, which reads up
  // to two blocks away: in a progressive picture whose scans leave coefficients coarse (ITU-T T.81, K.8).
  bool may_make_parts() const noexcept;

  // Calls libjpeg, which leaves by longjmp when it fails: `call` must own nothing. False if it failed.
  template <class Call>
  bool try_call(Call call) noexcept {
    if (setjmp(errors.on_error) != 0) {
      return false;
    }
    call();
    return true;
  }

  // The same; throws UnsupportedJpeg or Error(kDecode) if it failed.
  template <class Call>
  void guard(Call call) {
    if (!try_call(call)) {
      if (errors.msg_code == JERR_SOF_UNSUPPORTED) {
        throw UnsupportedJpeg(errors.text);
      }
      throw Error(ErrorKind::kDecode, "decode", errors.text);
    }
  }
};

}  // namespace spdl
