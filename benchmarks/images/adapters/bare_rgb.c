// libjpeg-turbo alone: a part of a JPEG in memory, to RGB. 0 if it went well.

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

struct Errors {
  struct jpeg_error_mgr manager;
  jmp_buf leave;
};

static void leave(j_common_ptr info) { longjmp(((struct Errors*)info->err)->leave, 1); }

// Rows from `top` on and at least the columns from `left` on, to `out`, which has room for `height` whole rows. What they
// begin with and how wide they are comes back in `left` and `width`.
int decode_part(const unsigned char* data, unsigned long size, unsigned int top, unsigned int* left, unsigned int height,
                unsigned int* width, unsigned char* out) {
  struct jpeg_decompress_struct info;
  struct Errors errors;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  if (setjmp(errors.leave)) {
    jpeg_destroy_decompress(&info);
    return 1;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, data, size);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  if (*width < info.output_width) {
    jpeg_crop_scanline(&info, left, width);
  }
  if (top > 0) {
    jpeg_skip_scanlines(&info, top);
  }
  const size_t row_bytes = (size_t)info.output_width * 3;
  while (info.output_scanline < top + height) {
    JSAMPROW rows[8];
    unsigned int count = top + height - info.output_scanline;
    count = count < 8 ? count : 8;
    for (unsigned int i = 0; i < count; ++i) {
      rows[i] = out + (info.output_scanline - top + i) * row_bytes;
    }
    jpeg_read_scanlines(&info, rows, count);
  }
  jpeg_destroy_decompress(&info);
  return 0;
}
