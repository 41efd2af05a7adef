#include "jpeg/decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <jpeglib.h>

#include <jerror.h>

#include "base/error.h"
#include "image/exif.h"
#include "image/sniff.h"

#if JPEG_LIB_VERSION >= 70
#define SPDL_DCT_WIDTH(component) ((component).DCT_h_scaled_size)
#define SPDL_DCT_HEIGHT(component) ((component).DCT_v_scaled_size)
#define SPDL_MIN_DCT_HEIGHT(info) ((info).min_DCT_v_scaled_size)
#else
#define SPDL_DCT_WIDTH(component) ((component).DCT_scaled_size)
#define SPDL_DCT_HEIGHT(component) ((component).DCT_scaled_size)
#define SPDL_MIN_DCT_HEIGHT(info) ((info).min_DCT_scaled_size)
#endif
#define SPDL_TEXT_OF(value) #value
#define SPDL_TEXT(value) SPDL_TEXT_OF(value)

namespace spdl {
namespace {

// Encoders write about ten scans; files with hundreds exist to keep decoders busy.
constexpr int kMaxScans = 500;

struct ErrorManager : jpeg_error_mgr {
  std::jmp_buf on_error;
  char text[JMSG_LENGTH_MAX + 64] = "";
};

struct ScanCounter : jpeg_progress_mgr {};

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

// Data in memory. libjpeg asks for more to fill its bit buffer even where it needs no more, so the end of the data is
// an end marker first, and damage only when bits beyond it are used (JWRN_HIT_MARKER) or scans may be missing.
struct MemorySource : jpeg_source_mgr {
  bool ended = false;
};

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

// By how much the inverse transform is to scale down: 1, 2, 4 or 8. Other factors have no fast transform.
// What it leaves must be kMargin times the target: its own filter is a poor one, and shows where little is resampled
// after it. Measured with 200 photographs against resampling the whole picture: with a margin of 1.1 the worst is
// 34 dB and 7 % are gained; with 1.5, 40 dB, which is what chroma costs without any scaling here.
constexpr double kMargin = 1.5;

unsigned int reduction(unsigned int width, unsigned int height, int target_width, int target_height) noexcept {
  unsigned int factor = 1;
  while (factor < 8 && width >= 2 * factor * kMargin * target_width && height >= 2 * factor * kMargin * target_height) {
    factor *= 2;
  }
  return factor;
}

ColorModel model_of(const jpeg_decompress_struct& info) {
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      return ColorModel::kGray;
    case JCS_YCbCr:
      return ColorModel::kYCbCr;
    case JCS_RGB:
      return ColorModel::kRgb;
    case JCS_CMYK:
      return ColorModel::kCmyk;
    case JCS_YCCK:
      return ColorModel::kYcck;
    default:
      throw Error(ErrorKind::kDecode, "decode",
                  "it has " + std::to_string(info.num_components) + " components, whose meaning is not defined");
  }
}

}  // namespace

struct JpegDecoder::Session {
  jpeg_decompress_struct info{};
  ErrorManager errors{};
  ScanCounter progress{};
  MemorySource source{};
  std::array<std::vector<JSAMPROW>, 4> rows;
  bool created = false;

  Session() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = give_up;
    errors.emit_message = on_message;
    progress.progress_monitor = count_scans;
    source.init_source = init_source;
    source.fill_input_buffer = at_end;
    source.skip_input_data = skip;
    source.resync_to_restart = jpeg_resync_to_restart;
    source.term_source = end_source;
  }
  ~Session() { close(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // libjpeg keeps the tables of one picture for the next. A picture must not depend on what came before, so each gets
  // a decoder of its own; that costs about a microsecond.
  void create(std::span<const std::uint8_t> data) {
    close();
    guard([&] { jpeg_create_decompress(&info); });
    created = true;
    info.progress = &progress;
    info.src = &source;
    source.next_input_byte = data.data();
    source.bytes_in_buffer = data.size();
    source.ended = false;
  }

  void close() noexcept {
    if (created) {
      jpeg_destroy_decompress(&info);
      created = false;
    }
  }

  // Calls libjpeg, which leaves by longjmp when it fails: `call` must own nothing.
  template <class Call>
  bool try_call(Call call) noexcept {
    if (setjmp(errors.on_error) != 0) {
      return false;
    }
    call();
    return true;
  }

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

JpegDecoder::JpegDecoder() : session_(std::make_unique<Session>()) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

JpegHeader JpegDecoder::open(std::span<const std::uint8_t> data, bool want_orientation) {
  if (data.empty()) {
    throw Error(ErrorKind::kOpen, "open", "it is empty");
  }
  if (sniff_format(data) != "JPEG") {
    throw Error(ErrorKind::kOpen, "open", "it is not a JPEG");
  }
  Session& session = *session_;
  jpeg_decompress_struct& info = session.info;
  session.create(data);
  session.guard([&] {
    if (want_orientation) {
      jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
    }
    jpeg_read_header(&info, TRUE);
  });
  if (std::int64_t{info.image_width} * info.image_height > kMaxPixels) {
    throw Error(ErrorKind::kDecode, "decode",
                "it has " + std::to_string(info.image_width) + "x" + std::to_string(info.image_height) +
                    " pixels, more than the " + std::to_string(kMaxPixels) + " that are accepted");
  }
  JpegHeader header;
  header.width = static_cast<int>(info.image_width);
  header.height = static_cast<int>(info.image_height);
  for (auto* marker = info.marker_list; marker != nullptr && header.orientation == 1; marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1) {
      header.orientation = exif_orientation({marker->data, marker->data_length});
    }
  }
  return header;
}

Picture JpegDecoder::decode(int width, int height, bool luma_only) {
  Session& session = *session_;
  jpeg_decompress_struct& info = session.info;
  Picture picture;
  picture.model = model_of(info);
  picture.num_components = info.num_components;
  const bool leave_chroma = luma_only && picture.model == ColorModel::kYCbCr;
  session.guard([&] {
    info.raw_data_out = TRUE;
    info.out_color_space = info.jpeg_color_space;
    info.scale_num = 1;
    info.scale_denom = reduction(info.image_width, info.image_height, width, height);
    for (int i = 1; leave_chroma && i < info.num_components; ++i) {
      info.comp_info[i].component_needed = FALSE;
    }
    jpeg_start_decompress(&info);
  });
  if (session.source.ended && jpeg_has_multiple_scans(&info)) {
    throw Error(ErrorKind::kDecode, "decode", "the data ends before its end marker, so scans may be missing");
  }

  // Planes with whole blocks, as libjpeg writes them.
  std::array<unsigned int, 4> rows_per_pass{};
  std::array<std::size_t, 4> strides{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(info.num_components); ++i) {
    const jpeg_component_info& from = info.comp_info[i];
    Component& component = picture.components[i];
    const auto block_width = static_cast<unsigned int>(SPDL_DCT_WIDTH(from));
    const auto block_height = static_cast<unsigned int>(SPDL_DCT_HEIGHT(from));
    component.extent_x = static_cast<double>(info.image_width) * from.h_samp_factor * block_width /
                         (info.max_h_samp_factor * DCTSIZE);
    component.extent_y = static_cast<double>(info.image_height) * from.v_samp_factor * block_height /
                         (info.max_v_samp_factor * DCTSIZE);
    component.width = static_cast<int>(from.downsampled_width);
    component.height = static_cast<int>(from.downsampled_height);
    rows_per_pass[i] = static_cast<unsigned int>(from.v_samp_factor) * block_height;
    strides[i] = round_up(std::size_t{from.width_in_blocks} * block_width, kRowPadding) + kRowPadding;
    const std::size_t num_rows = std::size_t{info.total_iMCU_rows} * rows_per_pass[i];
    component.stride = strides[i];
    component.held = {0, 0, component.height, component.width};
    component.data = planes_[i].reserve(strides[i] * num_rows);
    session.rows[i].resize(rows_per_pass[i]);
  }

  const auto lines_per_pass =
      static_cast<JDIMENSION>(info.max_v_samp_factor) * static_cast<JDIMENSION>(SPDL_MIN_DCT_HEIGHT(info));
  std::array<JSAMPARRAY, 4> passes{};
  for (std::size_t pass = 0; pass < info.total_iMCU_rows; ++pass) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(info.num_components); ++i) {
      std::uint8_t* row = planes_[i].data() + pass * rows_per_pass[i] * strides[i];
      for (JSAMPROW& pointer : session.rows[i]) {
        pointer = row;
        row += strides[i];
      }
      passes[i] = session.rows[i].data();
    }
    session.guard([&] { jpeg_read_raw_data(&info, passes.data(), lines_per_pass); });
  }
  return picture;
}

void JpegDecoder::trim(std::size_t keep_bytes) noexcept {
  session_->close();
  for (Buffer& plane : planes_) {
    if (plane.capacity() > keep_bytes) {
      plane.release();
    }
  }
}

const char* libjpeg_turbo_version() noexcept { return SPDL_TEXT(LIBJPEG_TURBO_VERSION); }

const char* libjpeg_turbo_path() noexcept {
  Dl_info info{};
  const bool is_found = dladdr(reinterpret_cast<const void*>(&jpeg_std_error), &info) != 0;
  return is_found && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace spdl
