// Starting in the middle of a JPEG that has restart markers.
//
// libjpeg gets the file's own header, but with the height of what is left, and then the data from the marker on. That is
// a JPEG whose pixels are those of the lower part of the picture, as long as the part begins with a row of units.

#include <algorithm>
#include <cstring>

#include "image/jpeg_restarts.h"
#include "jpeg/decoder.h"
#include "jpeg/session.h"

namespace spdl {

int JpegDecoder::jump_to(int top, int bottom) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  if (info.restart_interval == 0 || info.progressive_mode || info.arith_code || jpeg_has_multiple_scans(&info) ||
      session.source.ended || height_at_ == 0) {
    return 0;
  }
  const auto unit_height = static_cast<std::size_t>(info.max_v_samp_factor * DCTSIZE);
  const auto total = static_cast<std::size_t>(info.total_iMCU_rows);
  // A single component has units of one block, of which a row of units, as libjpeg counts them, may have several rows.
  const bool is_alone = info.num_components == 1;
  const auto unit_width = static_cast<std::size_t>(is_alone ? DCTSIZE : info.max_h_samp_factor * DCTSIZE);
  const std::size_t row_size = (info.image_width + unit_width - 1) / unit_width *
                               static_cast<std::size_t>(is_alone ? info.comp_info[0].v_samp_factor : 1);
  const std::size_t interval_size = info.restart_interval;
  const std::size_t row = restart_row(static_cast<std::size_t>(top) / unit_height, row_size, interval_size);
  if (row == 0) {
    return 0;
  }
  // One row more, as libjpeg enlarges chroma with that of the next.
  const std::size_t end = std::min((static_cast<std::size_t>(bottom) + unit_height - 1) / unit_height + 1, total);
  const std::size_t interval = row * row_size / interval_size;
  const std::size_t header_size = data_.size() - session.source.bytes_in_buffer;
  const std::size_t last = std::max(interval, (end * row_size - 1) / interval_size);
  const auto begin = find_restart_interval(data_.subspan(header_size), interval, last);
  if (!begin || height_at_ + 2 > header_size) {
    return 0;
  }
  const int above = static_cast<int>(row * unit_height);
  const auto height = info.image_height - static_cast<JDIMENSION>(above);
  const auto full_height = info.image_height;
  const auto width = info.image_width;
  const auto num_components = info.num_components;
  std::uint8_t* header = header_.reserve(header_size);
  std::memcpy(header, data_.data(), header_size);
  header[height_at_] = static_cast<std::uint8_t>(height >> 8);
  header[height_at_ + 1] = static_cast<std::uint8_t>(height & 0xff);
  session.create({header, header_size});
  const bool is_read = session.try_call([&] { jpeg_read_header(&info, TRUE); });
  const bool is_same = is_read && info.image_height == height && info.image_width == width &&
                       info.num_components == num_components && !session.source.ended;
  if (is_same && session.source.bytes_in_buffer == 0) {
    const auto rest = data_.subspan(header_size + *begin);
    session.source.next_input_byte = rest.data();
    session.source.bytes_in_buffer = rest.size();
    session.source.first_restart = static_cast<unsigned int>(interval % 8);
    return above;
  }
  // libjpeg took another height for the picture's than we did: all of the file, then.
  session.create(data_);
  session.guard([&] { jpeg_read_header(&info, TRUE); });
  if (info.image_height != full_height) {
    throw Error(ErrorKind::kDecode, "decode", "its header changed while it was read");
  }
  return 0;
}

}  // namespace spdl
