#include "jpeg/session.h"

#include <algorithm>
#include <string>

#if __has_include(<jpegint.h>)
extern "C" {
#include <jpegint.h>
}
#endif

namespace spdl {
namespace {

using ErrorManager = JpegSession::ErrorManager;
using MemorySource = JpegSession::MemorySource;

// Encoders write about ten scans; files with hundreds exist to keep decoders busy.
constexpr int kMaxScans = 500;

ErrorManager& errors_of(j_common_ptr info) noexcept { return *static_cast<ErrorManager*>(info->err); }

[[noreturn]] void give_up(j_common_ptr info) {
  ErrorManager& errors = errors_of(info);
  errors.format_message(info, errors.text);
  std::longjmp(errors.on_error, 1);
}

// libjpeg goes on after a warning with pixels of its own making. These change none; all others mean damage.
bool is_harmless(int code) noexcept {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) {
    give_up(info);
  }
}

void count_scans(j_common_ptr info) {
  const auto& decoder = *reinterpret_cast<j_decompress_ptr>(info);
  if (decoder.input_scan_number > kMaxScans) {
    ErrorManager& errors = errors_of(info);
    std::snprintf(errors.text, sizeof(errors.text), "it has more than %d scans", kMaxScans);
    std::longjmp(errors.on_error, 1);
  }
}

void init_source(j_decompress_ptr) {}
void end_source(j_decompress_ptr) {}

boolean at_end(j_decompress_ptr info) {
  static constexpr JOCTET kEndOfImage[2] = {0xff, JPEG_EOI};
  static_cast<MemorySource*>(info->src)->ended = true;
  info->src->next_input_byte = kEndOfImage;
  info->src->bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void skip(j_decompress_ptr info, long count) {
  if (count <= 0) {
    return;
  }
  if (static_cast<unsigned long>(count) > info->src->bytes_in_buffer) {
    at_end(info);
    return;
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

// libjpeg counts markers from the place that it started at. What is called here has another number than that.
boolean on_other_restart(j_decompress_ptr info, int expected) {
  const auto first = static_cast<const MemorySource*>(info->src)->first_restart;
  if (info->unread_marker == static_cast<int>(JPEG_RST0 + (static_cast<unsigned int>(expected) + first) % 8)) {
    info->unread_marker = 0;
    return TRUE;
  }
  return jpeg_resync_to_restart(info, expected);
}

// jpeg_crop_scanline crops planes as well as pixels, but refuses to run unless `global_state` of the decoder, a private
// field, is DSTATE_SCANNING; while planes are read it is DSTATE_RAW_OK. No public function changes it, so `crop_columns`
// does, for that one call. This is right for libjpeg-turbo 1.5, the first version with the function, to 3.x: the value is
// from jpegint.h, the same since libjpeg 6b, and is compared with that header where it is installed (Debian and Fedora
// install it). With a later version whole rows are decoded, which gives the same pixels, until somebody has looked.
constexpr int kScanning = 205;
#ifdef DSTATE_SCANNING
static_assert(kScanning == DSTATE_SCANNING, "libjpeg-turbo changed its states: see crop_columns");
#endif
static_assert(LIBJPEG_TURBO_VERSION_NUMBER >= 1005000, "libjpeg-turbo 1.5 or later is needed, for jpeg_crop_scanline");
constexpr bool kCanCropPlanes = LIBJPEG_TURBO_VERSION_NUMBER < 4000000;
// Earlier versions had faults in jpeg_skip_scanlines and jpeg_crop_scanline, which 2.0.4 to 2.1 repaired.
constexpr bool kCanCropPixels = LIBJPEG_TURBO_VERSION_NUMBER >= 2001000;

}  // namespace

JpegSession::JpegSession() {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = give_up;
  errors.emit_message = on_message;
  progress.progress_monitor = count_scans;
  source.init_source = init_source;
  source.fill_input_buffer = at_end;
  source.skip_input_data = skip;
  source.resync_to_restart = on_other_restart;
  source.term_source = end_source;
}

void JpegSession::create(std::span<const std::uint8_t> data) {
  close();
  guard([&] { jpeg_create_decompress(&info); });
  created = true;
  info.progress = &progress;
  info.src = &source;
  source.next_input_byte = data.data();
  source.bytes_in_buffer = data.size();
  source.ended = false;
  source.first_restart = 0;
}

void JpegSession::close() noexcept {
  if (created) {
    jpeg_destroy_decompress(&info);
    created = false;
  }
}

void JpegSession::check_scans() {
  if (source.ended && jpeg_has_multiple_scans(&info)) {
    throw Error(ErrorKind::kDecode, "decode", "the data ends before its end marker, so scans may be missing");
  }
}

UnitRange JpegSession::rows_of(const Rect& region) const noexcept {
  const int height = info.max_v_samp_factor * DCTSIZE;
  return {static_cast<std::size_t>(region.top / height),
          std::min<std::size_t>(static_cast<std::size_t>((region.bottom() + height - 1) / height),
                                info.total_iMCU_rows)};
}

// jpeg_crop_scanline, made for pixels, works for planes too (see kScanning): the coefficient controller then puts the
// first unit of the region at the start of each row. Its other effect, on upsampling, does not apply to planes. The
// tests compare every subsampling with the whole picture.
UnitRange JpegSession::crop_columns(const Rect& region) {
  const bool is_alone = info.num_components == 1;
  const auto unit = static_cast<std::size_t>((is_alone ? 1 : info.max_h_samp_factor) * DCTSIZE);
  const std::size_t num_units = (info.image_width + unit - 1) / unit;
  const auto scaled = static_cast<JDIMENSION>(unit / info.scale_denom);
  UnitRange wanted{static_cast<std::size_t>(region.left) / unit,
                   std::min((static_cast<std::size_t>(region.right()) + unit - 1) / unit, num_units)};
  const auto left_of = [&] { return static_cast<JDIMENSION>(wanted.begin) * scaled; };
  const auto width_of = [&] {
    return std::min(static_cast<JDIMENSION>(wanted.end) * scaled, info.output_width) - left_of();
  };
  // It replaces the upsampler, which planes do not have, where a component is left with one sample in a row.
  const auto narrowest = static_cast<JDIMENSION>(info.max_h_samp_factor);
  while (width_of() <= narrowest && (wanted.begin > 0 || wanted.end < num_units)) {
    wanted.end < num_units ? ++wanted.end : --wanted.begin;
  }
  if (!kCanCropPlanes || (wanted.begin == 0 && wanted.end == num_units)) {
    return UnitRange{0, num_units};
  }
  JDIMENSION left = left_of();
  JDIMENSION width = width_of();
  const int state = info.global_state;
  info.global_state = kScanning;
  const bool is_cropped = try_call([&] { jpeg_crop_scanline(&info, &left, &width); });
  info.global_state = state;
  return is_cropped ? wanted : UnitRange{0, num_units};
}

bool JpegSession::may_make_parts() const noexcept {
  if (!kCanCropPixels) {
    return false;
  }
  if (!info.progressive_mode || info.coef_bits == nullptr) {
    return true;
  }
  for (int i = 0; i < info.num_components; ++i) {
    if (std::any_of(info.coef_bits[i], info.coef_bits[i] + DCTSIZE2, [](int bits) { return bits != 0; })) {
      return false;
    }
  }
  return true;
}

// At the ends of what it decodes, libjpeg enlarges chroma as at the picture's: so a pixel more at either side, which
// brings a unit more where the region ends with one.
int JpegSession::crop_pixels(const Rect& region) {
  const bool is_alone = info.num_components == 1;
  const int unit = (is_alone ? 1 : info.max_h_samp_factor) * DCTSIZE;
  const int picture = static_cast<int>(info.output_width);
  const int end = std::min((region.right() + unit) / unit * unit, picture);
  // Where a component is left with one sample in a row, its upsampler is replaced by another.
  const int begin = std::clamp(region.left - 1, 0, std::max(end - unit, 0)) / unit * unit;
  if ((begin == 0 && end == picture) || !may_make_parts()) {
    return 0;
  }
  auto left = static_cast<JDIMENSION>(begin);
  auto width = static_cast<JDIMENSION>(end - begin);
  guard([&] { jpeg_crop_scanline(&info, &left, &width); });
  return static_cast<int>(left);
}

void JpegSession::skip_rows(int count, Buffer& memory) {
  const auto end = static_cast<JDIMENSION>(count);
  if (count > 0 && !info.arith_code && may_make_parts()) {
    guard([&] { jpeg_skip_scanlines(&info, end); });
  }
  while (info.output_scanline < end) {
    read_rows(end - info.output_scanline, memory);
  }
}

std::size_t JpegSession::read_rows(std::size_t at_most, Buffer& memory) {
  const std::size_t count = std::min(at_most, kRowsPerCall);
  const std::size_t stride =
      round_up(std::size_t{info.output_width} * static_cast<std::size_t>(info.out_color_components), 64) + 3 * 64;
  // To rows that are aligned libjpeg-turbo writes past the cache (MOVNTDQ), and reading them waits for memory.
  std::uint8_t* row = memory.reserve(stride * kRowsPerCall) + 1;
  rows[0].resize(kRowsPerCall);
  for (JSAMPROW& pointer : rows[0]) {
    pointer = row;
    row += stride;
  }
  JDIMENSION num_read = 0;
  guard([&] { num_read = jpeg_read_scanlines(&info, rows[0].data(), static_cast<JDIMENSION>(count)); });
  return num_read;
}

}  // namespace spdl
