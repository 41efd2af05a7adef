#include "media/flac_decoder.h"

#if defined(SPDL_X86_KERNELS)
#include <cpuid.h>
#endif

#include <algorithm>

namespace spdl {
namespace {

constexpr std::size_t kChecksum = 2;
constexpr int kMostBits = 24;

#if defined(SPDL_X86_KERNELS)
// Older Clangs have no name for it. (AMD64 Architecture Programmer's Manual, volume 3, E.4.2.)
bool has_lzcnt() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 5 & 1) != 0;
}
#endif

}  // namespace

const FlacKernels& choose_flac_kernels() noexcept {
#if defined(SPDL_X86_KERNELS)
  static const bool has_all = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                              __builtin_cpu_supports("bmi2") && has_lzcnt();
  if (has_all) {
    return kFlacKernelsAvx2;
  }
#endif
  return kFlacKernels;
}

FlacDecoder::FlacDecoder(int sample_rate, int num_channels, int num_bits)
    : kernels_(&choose_flac_kernels()), sample_rate_(sample_rate), num_bits_(num_bits) {
  rows_.num_channels = num_channels;
}

int FlacDecoder::decode(std::span<const std::uint8_t> frame, bool checks_sum) {
  const auto header = parse_flac_header(frame);
  if (!header || (header->num_bits != 0 && header->num_bits != num_bits_) || num_bits_ < 4 || num_bits_ > kMostBits ||
      header->num_channels != rows_.num_channels || (header->sample_rate != 0 && header->sample_rate != sample_rate_) ||
      frame.size() < header->num_bytes + kChecksum || (checks_sum && flac_crc16(0, frame) != 0)) {
    return 0;
  }
  if (header->num_samples > rows_.stride - kFlacRowMargin) {
    rows_.stride = kFlacRowMargin + header->num_samples;
    memory_.assign(static_cast<std::size_t>(rows_.num_channels) * static_cast<std::size_t>(rows_.stride), 0);
    rows_.first = memory_.data() + kFlacRowMargin;
  }
  rows_.num_samples = header->num_samples;
  stereo_ = header->stereo;
  std::fill_n(rows_.num_bits, rows_.num_channels, num_bits_);
  if (stereo_ != FlacStereo::kNone) {
    ++rows_.num_bits[stereo_ == FlacStereo::kSideRight ? 0 : 1];
  }
  const auto body = frame.subspan(header->num_bytes, frame.size() - header->num_bytes - kChecksum);
  return kernels_->decode(body.data(), body.data() + body.size(), rows_) ? rows_.num_samples : 0;
}

void FlacDecoder::write(void* to) const noexcept {
  if (is_int16()) {
    kernels_->to_int16(rows_, stereo_, 16 - num_bits_, to);
  } else {
    kernels_->to_int32(rows_, stereo_, 32 - num_bits_, to);
  }
}

}  // namespace spdl
