#include "jpeg/gray_encoder.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <cstdlib>

#include <jpeglib.h>

#include "base/error.h"

namespace spdl {
namespace {

// ISO/IEC 11172-2 (MPEG-1), 2.4.3.2: the default matrix of intra macroblocks.
constexpr std::array<unsigned, 64> kIntraMatrix = {
    8,  16, 19, 22, 26, 27, 29, 34, 16, 16, 22, 24, 27, 29, 34, 37, 19, 22, 26, 27, 29, 34, 34, 38, 22, 22, 26, 27, 29, 34, 37, 40,
    22, 26, 27, 29, 32, 35, 40, 48, 26, 27, 29, 32, 35, 40, 48, 58, 26, 27, 29, 34, 38, 46, 56, 69, 27, 29, 35, 38, 46, 56, 69, 83};

struct Encoding {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error;
  char text[JMSG_LENGTH_MAX] = "";
  unsigned char* data = nullptr;
  unsigned long size = 0;

  Encoding() = default;
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;
  ~Encoding() {
    jpeg_destroy_compress(&info);
    std::free(data);
  }
};

[[noreturn]] void leave(j_common_ptr info) {
  auto& encoding = *static_cast<Encoding*>(info->client_data);
  encoding.errors.format_message(info, encoding.text);
  std::longjmp(encoding.on_error, 1);
}

// False after an error. Has nothing to destroy, since errors leave it by longjmp.
bool run(Encoding& encoding, const std::uint8_t* pixels, int width, int height, unsigned scale) {
  jpeg_compress_struct& info = encoding.info;
  info.err = jpeg_std_error(&encoding.errors);
  encoding.errors.error_exit = leave;
  encoding.errors.output_message = [](j_common_ptr) {};
  info.client_data = &encoding;
  if (setjmp(encoding.on_error) != 0) {
    return false;
  }
  jpeg_create_compress(&info);
  info.client_data = &encoding;
  jpeg_mem_dest(&info, &encoding.data, &encoding.size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  unsigned table[64];
  for (std::size_t i = 0; i < 64; ++i) {
    table[i] = std::clamp(kIntraMatrix[i] * scale / 8, 1U, 255U);
  }
  table[0] = kIntraMatrix[0];
  constexpr int kAsItIs = 100;
  jpeg_add_quant_table(&info, 0, table, kAsItIs, TRUE);
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels + std::size_t{info.next_scanline} * info.image_width);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::uint8_t> encode_gray_jpeg(Bytes pixels, int width, int height, int qscale, const std::string& name) {
  Encoding encoding;
  if (!run(encoding, pixels.data(), width, height, static_cast<unsigned>(std::clamp(qscale, 2, 31)))) {
    throw Error(ErrorKind::kEncode, "encode a picture for", encoding.text).in(name);
  }
  return {encoding.data, encoding.data + encoding.size};
}

}  // namespace spdl
