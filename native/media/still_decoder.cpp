#include "media/still_decoder.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "av/check.h"
#include "av/colours.h"
#include "av/compat.h"
#include "av/log.h"
#include "base/error.h"
#include "base/sniff.h"
#include "image/gif.h"
#include "image/header.h"
#include "image/heif.h"
#include "image/jpeg_facts.h"
#include "image/picture.h"
#include "image/tiff.h"
#include "image/webp.h"
#include "media/gif_decoder.h"
#include "media/heif_decoder.h"
#include "media/input.h"
#include "media/netpbm_decoder.h"
#include "media/packets.h"
#include "media/pixel_limit.h"
#include "media/still_frame.h"
#include "media/still_memory.h"
#include "media/stored_png.h"
#include "media/stored_samples.h"
#include "media/tiff_decoder.h"
#include "media/webp_decoder.h"

namespace spdl {
namespace {

// FFmpeg has its decoder from version 6 on.
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 3, 100)
constexpr AVCodecID kRadianceHdr = AV_CODEC_ID_RADIANCE_HDR;
#else
constexpr AVCodecID kRadianceHdr = AV_CODEC_ID_NONE;
#endif

// Formats whose whole file is what their decoder takes as one packet: no demuxer is needed, nor its guesses.
std::optional<AVCodecID> codec_of(std::string_view format) noexcept {
  struct Known {
    std::string_view format;
    AVCodecID codec;
  };
  static constexpr std::array kKnown = {
      Known{"JPEG", AV_CODEC_ID_MJPEG},         Known{"PNG", AV_CODEC_ID_PNG},         Known{"GIF", AV_CODEC_ID_GIF},
      Known{"WebP", AV_CODEC_ID_WEBP},          Known{"BMP", AV_CODEC_ID_BMP},         Known{"TIFF", AV_CODEC_ID_TIFF},
      Known{"JPEG 2000", AV_CODEC_ID_JPEG2000}, Known{"JPEG XL", AV_CODEC_ID_JPEGXL},  Known{"PSD", AV_CODEC_ID_PSD},
      Known{"QOI", AV_CODEC_ID_QOI},            Known{"OpenEXR", AV_CODEC_ID_EXR},
      Known{"Radiance HDR", kRadianceHdr},
  };
  const auto* found =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return known.format == format; });
  return found == kKnown.end() ? std::nullopt : std::optional(found->codec);
}

std::string name_of(std::string_view format) {
  return format.empty() ? "it is of no format that is known here" : "it looks like " + std::string(format);
}

// What the decoder's frame and the planes made of it take, about: four bytes a pixel each, in padded rows.
MemoryBudget::Lease take_memory(std::int64_t width, std::int64_t height) noexcept {
  constexpr std::int64_t kBytesPerPixel = 8;
  if (width < 1 || height < 1) {
    return {};
  }
  const std::size_t row = padded(static_cast<int>(std::min<std::int64_t>(width, std::numeric_limits<int>::max() / 2)));
  return memory_budget().take(row * static_cast<std::size_t>(height * kBytesPerPixel));
}

// One thread, strict about damage, and bounded before anything is allocated for the pixels.
av::CodecContextPtr open_decoder(AVCodecID id, std::string_view format, const AVCodecParameters* parameters,
                                 std::int64_t max_pixels, const av::Options& options = {}) {
  const AVCodec* codec = avcodec_find_decoder(id);
  if (codec == nullptr) {
    throw Error(ErrorKind::kDecode, "decode",
                name_of(format) + ", and this FFmpeg has no decoder for " + (id == AV_CODEC_ID_NONE ? "it" : avcodec_get_name(id)));
  }
  auto context = av::own<av::CodecContextPtr>(avcodec_alloc_context3(codec));
  av::mark_as_ours(*context);
  if (parameters != nullptr) {
    av::check(avcodec_parameters_to_context(context.get(), parameters), ErrorKind::kDecode, "decode");
  }
  context->thread_count = 1;
  context->max_pixels = codec_max_pixels(max_pixels);
  context->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
  av::Dictionary dictionary(options);
  av::check(avcodec_open2(context.get(), codec, dictionary.address()), ErrorKind::kDecode, "decode");
  return context;
}

// The next frame, if there is one by now. `packet`: null at the end of the data. `file`: what correct_still is to know.
av::FramePtr decode(AVCodecContext& context, const AVPacket* packet, Bytes file = {}) {
  av::FramePtr frame = av::new_frame();
  const av::LogCapture said;
  int code = avcodec_send_packet(&context, packet);
  code = code < 0 ? code : avcodec_receive_frame(&context, frame.get());
  if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
    return nullptr;
  }
  av::check(code, ErrorKind::kDecode, "decode", {}, said);
  if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
    throw Error(ErrorKind::kDecode, "decode", "the data is damaged");
  }
  av::forget_unknown_colours(*frame);
  correct_still(*frame, context.codec_id, file);
  return frame;
}

av::FramePtr require(av::FramePtr frame) {
  if (frame == nullptr) {
    throw Error(ErrorKind::kDecode, "decode", "the data ends before a picture is complete");
  }
  return frame;
}

av::FramePtr decode_all(AVCodecContext& context, const AVPacket& packet, Bytes file) {
  av::FramePtr frame = decode(context, &packet, file);
  return frame != nullptr ? std::move(frame) : require(decode(context, nullptr, file));
}

// `file`: the data before anything was taken out of it. `is_padded`: `data` is ours, with room behind it that decoders may read.
av::FramePtr decode_directly(AVCodecID id, std::string_view format, Bytes data, Bytes file, std::int64_t max_pixels,
                             const av::Options& options = {}, bool is_padded = false) {
  const av::PacketPtr packet = av::new_packet();
  // Without an owner of its own the packet is copied, and padded, by the decoder. Nothing of it outlives the decoder.
  if (is_padded) {
    packet->buf = av_buffer_create(const_cast<std::uint8_t*>(data.data()), data.size() + AV_INPUT_BUFFER_PADDING_SIZE,
                                   [](void*, std::uint8_t*) {}, nullptr, AV_BUFFER_FLAG_READONLY);
  }
  packet->data = const_cast<std::uint8_t*>(data.data());
  packet->size = static_cast<int>(std::min(data.size(), std::size_t{std::numeric_limits<int>::max()}));
  packet->flags = AV_PKT_FLAG_KEY;
  const auto context = open_decoder(id, format, nullptr, max_pixels, options);
  return decode_all(*context, *packet, file);
}

// A black picture of that size, of the format and colours of another one.
av::FramePtr new_canvas(const AVFrame& like, int width, int height) {
  av::FramePtr canvas = av::new_frame();
  canvas->format = like.format;
  canvas->width = width;
  canvas->height = height;
  canvas->color_range = like.color_range;
  canvas->colorspace = like.colorspace;
  allocate_pixels(*canvas);
  const auto format = static_cast<AVPixelFormat>(like.format);
  const std::array<std::ptrdiff_t, 4> strides = {canvas->linesize[0], canvas->linesize[1], canvas->linesize[2],
                                                 canvas->linesize[3]};
  av::check(av_image_fill_black(canvas->data, strides.data(), format, canvas->color_range, canvas->width, canvas->height),
            ErrorKind::kDecode, "decode");
  return canvas;
}

// Copies a picture of the same format to its place, as much of it as lies on the canvas. `left` and `top` are on it.
void paste(const AVFrame& picture, int left, int top, AVFrame& canvas) {
  const auto format = static_cast<AVPixelFormat>(canvas.format);
  const AVPixFmtDescriptor& description = *av_pix_fmt_desc_get(format);
  const int width = std::min(picture.width, canvas.width - left);
  const int height = std::min(picture.height, canvas.height - top);
  for (int plane = 0; plane < av_pix_fmt_count_planes(format); ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int shift_x = is_chroma ? description.log2_chroma_w : 0;
    const int shift_y = is_chroma ? description.log2_chroma_h : 0;
    std::uint8_t* corner = canvas.data[plane] + std::ptrdiff_t{top >> shift_y} * canvas.linesize[plane] +
                           std::ptrdiff_t{left >> shift_x} * description.comp[plane].step;
    av_image_copy_plane(corner, canvas.linesize[plane], picture.data[plane], picture.linesize[plane],
                        av_image_get_linesize(format, width, plane), AV_CEIL_RSHIFT(height, shift_y));
  }
}

// A frame of an animation on its canvas.
av::FramePtr place(const WebpFrame& animated, av::FramePtr frame, std::int64_t max_pixels) {
  if (frame->width == animated.canvas_width && frame->height == animated.canvas_height) {
    return frame;
  }
  require_pixels(animated.canvas_width, animated.canvas_height, max_pixels);
  if (animated.left > animated.canvas_width - frame->width || animated.top > animated.canvas_height - frame->height) {
    throw Error(ErrorKind::kDecode, "decode", "its first frame lies outside of its canvas");
  }
  av::FramePtr canvas = new_canvas(*frame, animated.canvas_width, animated.canvas_height);
  paste(*frame, animated.left, animated.top, *canvas);
  return canvas;
}

// The best stream of pictures; of an icon's, which are the same picture in several sizes, the largest.
int choose_stream(AVFormatContext& container) {
  int best = av_find_best_stream(&container, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (best < 0) {
    throw Error(ErrorKind::kStreamNotFound, "decode", "No image stream was found in it");
  }
  if (std::string_view(container.iformat->name) == "ico") {
    for (int i = 0; i < static_cast<int>(container.nb_streams); ++i) {
      const AVCodecParameters& parameters = *container.streams[i]->codecpar;
      best = parameters.width > container.streams[best]->codecpar->width ? i : best;
    }
  }
  return best;
}

// A picture that is put together from tiles.
class GridDecoder {
 public:
  GridDecoder(const AVFormatContext& container, av::TileGrid grid, std::string_view format, std::int64_t max_pixels)
      : container_(container), grid_(std::move(grid)), format_(format), max_pixels_(max_pixels) {
    require_pixels(grid_.canvas_width, grid_.canvas_height, max_pixels);
    const auto is_inside = [](int begin, int size, int whole) { return begin >= 0 && size >= 1 && size <= whole - begin; };
    bool is_sound = is_inside(grid_.left, grid_.width, grid_.canvas_width) &&
                    is_inside(grid_.top, grid_.height, grid_.canvas_height);
    for (const av::TileGrid::Tile& tile : grid_.tiles) {
      is_sound = is_sound && is_inside(tile.left, 1, grid_.canvas_width) && is_inside(tile.top, 1, grid_.canvas_height);
    }
    if (!is_sound) {
      throw Error(ErrorKind::kDecode, "decode", "its tiles lie outside of its canvas");
    }
  }

  bool wants(int stream) const noexcept {
    return std::any_of(grid_.tiles.begin(), grid_.tiles.end(), [&](const auto& tile) { return tile.stream == stream; });
  }

  // The packet is the whole of its stream's picture.
  void decode(const AVPacket& packet) {
    const AVCodecParameters& parameters = *container_.streams[packet.stream_index]->codecpar;
    require_pixels(parameters.width, parameters.height, max_pixels_);
    const auto context = open_decoder(parameters.codec_id, format_, &parameters, max_pixels_);
    const av::FramePtr frame = decode_all(*context, packet, {});
    if (canvas_ == nullptr) {
      canvas_ = new_canvas(*frame, grid_.canvas_width, grid_.canvas_height);
    }
    if (frame->format != canvas_->format) {
      throw Error(ErrorKind::kDecode, "decode", "its tiles have different formats");
    }
    for (const av::TileGrid::Tile& tile : grid_.tiles) {
      if (tile.stream == packet.stream_index) {
        paste(*frame, tile.left, tile.top, *canvas_);
        ++num_placed_;
      }
    }
  }

  av::FramePtr finish() && {
    if (canvas_ == nullptr || num_placed_ < grid_.tiles.size()) {
      throw Error(ErrorKind::kDecode, "decode",
                  "of its " + std::to_string(grid_.tiles.size()) + " tiles only " + std::to_string(num_placed_) + " are there");
    }
    canvas_->crop_left = static_cast<std::size_t>(grid_.left);
    canvas_->crop_top = static_cast<std::size_t>(grid_.top);
    canvas_->crop_right = static_cast<std::size_t>(grid_.canvas_width - grid_.left - grid_.width);
    canvas_->crop_bottom = static_cast<std::size_t>(grid_.canvas_height - grid_.top - grid_.height);
    av::check(av_frame_apply_cropping(canvas_.get(), AV_FRAME_CROP_UNALIGNED), ErrorKind::kDecode, "decode");
    return std::move(canvas_);
  }

 private:
  const AVFormatContext& container_;
  av::TileGrid grid_;
  std::string_view format_;
  std::int64_t max_pixels_;
  av::FramePtr canvas_;
  std::size_t num_placed_ = 0;
};

Still decode_grid(Input& input, av::TileGrid grid, std::string_view format, std::int64_t max_pixels) {
  MemoryBudget::Lease lease = take_memory(grid.canvas_width, grid.canvas_height);
  GridDecoder decoder(input.context(), std::move(grid), format, max_pixels);
  const av::PacketPtr packet = av::new_packet();
  while (input.read(*packet)) {
    if (decoder.wants(packet->stream_index)) {
      decoder.decode(*packet);
    }
    av_packet_unref(packet.get());
  }
  return {std::move(decoder).finish(), std::move(lease)};
}

Still decode_contained(Input& input, std::string_view format, std::int64_t max_pixels) {
  AVFormatContext& container = input.context();
  const int index = choose_stream(container);
  if (auto grid = av::tile_grid_of(container, index)) {
    return decode_grid(input, *std::move(grid), format, max_pixels);
  }
  const AVCodecParameters& parameters = *container.streams[index]->codecpar;
  require_pixels(parameters.width, parameters.height, max_pixels);
  MemoryBudget::Lease lease = take_memory(parameters.width, parameters.height);
  for (unsigned i = 0; i < container.nb_streams; ++i) {
    container.streams[i]->discard = static_cast<int>(i) == index ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  }
  const auto context = open_decoder(parameters.codec_id, format, &parameters, max_pixels);
  const av::PacketPtr packet = av::new_packet();
  while (input.read(*packet)) {
    if (packet->stream_index == index) {
      if (av::FramePtr frame = decode(*context, packet.get(), bytes_of(*packet))) {
        require_pixels(frame->width, frame->height, max_pixels);
        return {std::move(frame), std::move(lease)};
      }
    }
    av_packet_unref(packet.get());
  }
  av::FramePtr frame = require(decode(*context, nullptr));
  require_pixels(frame->width, frame->height, max_pixels);
  return {std::move(frame), std::move(lease)};
}

Still decode_with_demuxer(const ImageSource& source, std::span<const std::uint8_t> data, std::string_view format,
                          std::int64_t max_pixels) {
  DemuxConfig config;
  // Some formats have no mark of their own, and only the name of the file tells.
  if (const auto* path = std::get_if<std::string>(&source)) {
    config.file_name = *path;
  }
  std::optional<Input> input;
  try {
    input.emplace(data, "", std::move(config));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOpen) {
      throw;
    }
    throw Error(ErrorKind::kOpen, "open", name_of(format) + ": " + error.reason());
  }
  return decode_contained(*input, format, max_pixels);
}

// FFmpeg's own format for planes of YCbCr, whose data looks like PGM.
bool is_pgmyuv(const ImageSource& source) noexcept {
  const auto* path = std::get_if<std::string>(&source);
  return path != nullptr && path->ends_with(".pgmyuv");
}

// Floating point has no levels that 8 bits could be made of without choosing what is white.
av::FramePtr expect_levels(av::FramePtr frame, std::string_view format, bool keeps_samples) {
  const AVPixFmtDescriptor* description = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame->format));
  const bool is_float = description != nullptr && (description->flags & AV_PIX_FMT_FLAG_FLOAT) != 0;
  if (!is_float) {
    if (format == "OpenEXR") {
      throw Error(ErrorKind::kDecode, "decode", "its samples are integers of 32 bits, of which FFmpeg drops the lower half");
    }
    return frame;
  }
  if (keeps_samples) {
    return as_stored_floats(*frame);
  }
  throw Error(ErrorKind::kDecode, "decode",
              "its samples are floating point of " + std::to_string(description->comp[0].depth) +
                  " bits, and no levels of gray or colour; load_image(…, filter_desc=None) returns them as they are");
}

Still decode_heif_picture(Bytes data, std::int64_t max_pixels) {
  Still still;
  if (const auto size = declared_size("HEIF", data)) {
    require_pixels(size->width, size->height, max_pixels);
    constexpr std::int64_t kCopies = 2;  // what libheif makes its picture of
    still.lease = take_memory(size->width, kCopies * size->height);
  }
  still.frame = decode_heif(data, max_pixels);
  return still;
}

}  // namespace

void expect_right_pixels(std::string_view format, Bytes data, bool tolerates_end) {
  if (const auto reason = misread_because(format, data); !reason.empty()) {
    throw Error(ErrorKind::kDecode, "decode", std::string(reason));
  }
  if (!tolerates_end && ends_early(format, data)) {
    throw Error(ErrorKind::kDecode, "decode", "the data ends before a picture is complete");
  }
}

namespace {

Still decode_data(const ImageSource& source, std::span<const std::uint8_t> data, std::string_view format,
                  std::int64_t max_pixels, bool keeps_samples) {
  // One without a primary picture has tracks, as a movie.
  if (format == "HEIF" && inspect_heif(data).has_primary) {
    return decode_heif_picture(data, max_pixels);
  }
  if (format == "TIFF") {
    if (auto still = decode_tiff(data, max_pixels, keeps_samples)) {
      return *std::move(still);
    }
  }
  if (format == "Netpbm" && !is_pgmyuv(source)) {
    return decode_netpbm(data, max_pixels, keeps_samples);
  }
  auto codec = codec_of(format);
  if (!codec) {
    return decode_with_demuxer(source, data, format, max_pixels);
  }
  Still still;
  if (const auto size = declared_size(format, data)) {
    require_pixels(size->width, size->height, max_pixels);
    // Rows as the decoder gets them, too.
    const std::int64_t copies = format == "PNG" ? 2 : 1;
    still.lease = take_memory(size->width, copies * size->height);
  }
  expect_right_pixels(format, data, false);
  if (format == "JPEG" && is_jpeg_ls(inspect_jpeg(data))) {
    codec = AV_CODEC_ID_JPEGLS;
  }
  Buffer changed;
  Bytes file = data;
  av::Options options;
  bool is_padded = false;
  std::optional<WebpFrame> animated;
  if (format == "PNG") {
    if (const auto stored = with_stored_pixels(data, changed, AV_INPUT_BUFFER_PADDING_SIZE)) {
      file = *stored;
      is_padded = true;
      options = {{"err_detect", "bitstream+buffer+explode"}};  // its checksums have been compared
    }
  } else if (format == "TIFF") {
    file = without_other_fields(data, changed);
  } else if (format == "GIF") {
    // As of other formats, the colour that is stored shows, where FFmpeg would put one of its own.
    const GifFacts facts = inspect_gif(data);
    if (facts.hidden_colour) {
      options = {{"trans_color", std::to_string(*facts.hidden_colour)}};
    }
    still.frame = decode_gif(data, facts, max_pixels);
  } else if (format == "WebP") {
    animated = first_frame(data, changed);
    file = animated ? animated->data : file;
  }
  if (format == "WebP" && (still.frame = decode_webp(file, max_pixels)) != nullptr) {
    correct_still(*still.frame, *codec, data);
  }
  if (still.frame == nullptr) {
    still.frame = decode_directly(*codec, format, file, data, max_pixels, options, is_padded);
  }
  require_pixels(still.frame->width, still.frame->height, max_pixels);
  if (animated) {
    still.frame = place(*animated, std::move(still.frame), max_pixels);
  }
  return still;
}

}  // namespace

Still decode_still(const ImageSource& source, std::span<const std::uint8_t> data, std::int64_t max_pixels,
                   bool keeps_samples) {
  const std::string_view format = sniff_format(data);
  Still still = decode_data(source, data, format, max_pixels, keeps_samples);
  still.frame = expect_levels(std::move(still.frame), format, keeps_samples);
  return still;
}

Still decode_still(const std::string& path, std::int64_t max_pixels, bool keeps_samples) {
  Input input(path, "", DemuxConfig{});
  Still still = decode_contained(input, {}, max_pixels);
  still.frame = expect_levels(std::move(still.frame), {}, keeps_samples);
  return still;
}

bool is_still(std::string_view format) noexcept {
  return codec_of(format) || format == "AVIF" || format == "HEIF" || format == "Netpbm";
}

}  // namespace spdl
