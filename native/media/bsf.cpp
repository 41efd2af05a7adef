#include "media/bsf.h"

#include <utility>

#include "av/check.h"

namespace spdl {

BitStreamFilter::BitStreamFilter(const Codec& codec, const std::string& description)
    : type_(codec.type), description_(description) {
  const std::string what = "'" + description + "'";
  AVBSFContext* made = nullptr;
  const int code = av_bsf_list_parse_str(description.c_str(), &made);
  context_.reset(made);
  av::check(code, ErrorKind::kFilter, "make the bit stream filter", what);
  av::check(avcodec_parameters_copy(context_->par_in, codec.parameters.get()), ErrorKind::kFilter,
            "make the bit stream filter", what);
  context_->time_base_in = codec.time_base;
  av::check(av_bsf_init(context_.get()), ErrorKind::kFilter, "apply the bit stream filter", what);
  codec_ = make_codec(codec.type, *context_->par_out, context_->time_base_out, codec.frame_rate,
                      codec.is_complete, codec.side_data);
  like_.type = type_;
  like_.time_base = context_->time_base_out;
  like_.codec = codec_;
}

void BitStreamFilter::drain(Packets& into) {
  for (;;) {
    av::PacketPtr packet = av::new_packet();
    const int code = av_bsf_receive_packet(context_.get(), packet.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
      return;
    }
    av::check(code, ErrorKind::kFilter, "filter the packets of", into.source);
    into.packets.push_back(std::move(packet));
  }
}

Packets BitStreamFilter::filter(const Packets& packets, bool flush) {
  if (packets.type != type_) {
    throw Error(ErrorKind::kFilter, "filter the packets of",
                std::string("they are of ") + name_of(packets.type) + ", and the bit stream filter was made for " +
                    name_of(type_))
        .in(packets.source);
  }
  Packets result;
  result.type = type_;
  result.source = packets.source;
  result.stream_index = packets.stream_index;
  result.time_base = context_->time_base_out;
  result.start = packets.start;
  result.window = packets.window;
  result.sound = packets.sound;
  result.clock = packets.clock;
  result.codec = packets.codec ? codec_ : nullptr;
  result.num_errors = packets.num_errors;
  result.is_view = packets.is_view;
  like_ = result.clone();
  for (const auto& packet : packets.packets) {
    if (packet->size == 0 && packet->side_data_elems == 0) {
      continue;  // which would mean the end
    }
    const av::PacketPtr shared = av::clone(*packet);
    av::check(av_bsf_send_packet(context_.get(), shared.get()), ErrorKind::kFilter, "filter the packets of",
              packets.source);
    drain(result);
  }
  if (flush) {
    Packets rest = this->flush();
    for (auto& packet : rest.packets) {
      result.packets.push_back(std::move(packet));
    }
  }
  return result;
}

Packets BitStreamFilter::flush() {
  Packets result = like_.clone();
  av::check(av_bsf_send_packet(context_.get(), nullptr), ErrorKind::kFilter, "flush the bit stream filter");
  drain(result);
  av_bsf_flush(context_.get());
  return result;
}

Packets apply_bsf(const Packets& packets, const std::string& description) {
  if (!packets.codec) {
    throw Error(ErrorKind::kNoCodec, "apply a bit stream filter to the packets of",
                "they carry no codec; use BSF(codec, bsf) for packets from streaming")
        .in(packets.source);
  }
  return BitStreamFilter(*packets.codec, description).filter(packets, true);
}

}  // namespace spdl
