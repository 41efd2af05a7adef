#include "media/still.h"

extern "C" {
#include <libavformat/avio.h>
}

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "av/check.h"
#include "base/file.h"
#include "base/own_call.h"
#include "base/scratch.h"
#include "image/draw.h"
#include "image/header.h"
#include "image/orientation.h"
#include "image/sniff.h"
#include "media/planes.h"
#include "media/still_decoder.h"

namespace spdl {
namespace {

struct Tools {
  PlaneMaker planes;
  Artist artist;

  void trim() noexcept {
    planes.trim(kKeepBytes);
    artist.trim(kKeepBytes);
  }
};

Plan draw(const ImageSource& source, std::span<const std::uint8_t> data, const Order& order, std::uint8_t* slot,
          Tools& tools) {
  const av::FramePtr frame = decode_still(source, data);
  if (frame->format == AV_PIX_FMT_BGRA && has_padding_for_alpha(sniff_format(data), data)) {
    frame->format = AV_PIX_FMT_BGR0;
  }
  const auto orientation = static_cast<Orientation>(order.transform.orient ? stored_orientation(data) : 1);
  const bool swaps = swaps_sides(orientation);
  const Plan plan = order.plan(swaps ? frame->width : frame->height, swaps ? frame->height : frame->width);
  const Picture picture = tools.planes.make(*frame, planes_wanted(order.transform, plan));
  tools.artist.draw(picture, orientation, plan, order.transform, slot);
  return plan;
}

struct CloseIo {
  void operator()(AVIOContext* io) const noexcept { avio_closep(&io); }
};

class FfmpegWay final : public GeneralWay {
 public:
  std::optional<Error> read(const std::string& url, Buffer& into,
                            std::span<const std::uint8_t>& data) const override {
    const OwnCall call;
    try {
      data = read_url(url, into);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  std::optional<Error> load(const ImageSource& source, std::span<const std::uint8_t> data, const Order& order,
                            std::uint8_t* slot, Plan& plan) const override {
    const OwnCall call;
    Scratch<Tools> tools;
    std::optional<Error> failure;
    try {
      plan = draw(source, data, order, slot, *tools);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::bad_alloc&) {
      failure = Error(ErrorKind::kDecode, "decode", "out of memory");
    }
    tools->trim();
    return failure;
  }
};

}  // namespace

Bytes read_url(const std::string& url, Buffer& into) {
  AVIOContext* opened = nullptr;
  const int code = avio_open2(&opened, url.c_str(), AVIO_FLAG_READ, nullptr, nullptr);
  if (code == AVERROR(ENOENT) || code == AVERROR_HTTP_NOT_FOUND) {
    throw av::make_error(ErrorKind::kSourceNotFound, code, "open");
  }
  av::check(code, ErrorKind::kOpen, "open");
  const std::unique_ptr<AVIOContext, CloseIo> io(opened);
  std::size_t room = std::size_t{1} << 16;
  std::size_t size = 0;
  into.reserve(room);
  while (true) {
    const auto wanted = static_cast<int>(std::min<std::size_t>(room - size, std::size_t{1} << 20));
    const int got = avio_read(io.get(), into.data() + size, wanted);
    if (got == AVERROR_EOF || got == 0) {
      break;
    }
    size += static_cast<std::size_t>(av::check(got, ErrorKind::kOpen, "open"));
    if (size > kMaxEncodedBytes) {
      throw Error(ErrorKind::kOpen, "open",
                  "it is larger than the " + std::to_string(kMaxEncodedBytes) + " bytes that a picture may have");
    }
    if (size == room) {
      Buffer larger(2 * room);
      std::copy_n(into.data(), size, larger.data());
      into = std::move(larger);
      room *= 2;
    }
  }
  return {into.data(), size};
}

const GeneralWay& general_way() noexcept {
  static const FfmpegWay way;
  return way;
}

}  // namespace spdl
