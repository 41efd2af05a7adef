#include "media/kept_scaler.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/idle_pool.h"

namespace spdl {
namespace {

// Some dozens of rows of the widest, and the planes of an RgbScaler: at most 3 MiB each.
constexpr int kMostWidth = 4096;
constexpr std::int64_t kMostRgbPixels = std::int64_t{1} << 20;
// Those in use are not in the pool, so it needs no room for all threads.
constexpr std::size_t kNumKept = 16;

using Pool = IdlePool<KeptScaler, kNumKept>;

Pool& pool() {
  static Pool* const all = new Pool;  // NOLINT: never destroyed
  return *all;
}

std::size_t hash_of(const ScaleCase& wanted) noexcept {
  std::size_t hash = std::hash<std::string>{}(wanted.flags);
  for (const int number : {wanted.width, wanted.height, wanted.format, wanted.range, wanted.matrix, wanted.to_width,
                           wanted.to_height, static_cast<int>(wanted.to_format)}) {
    hash = hash * 1'000'003U + static_cast<std::size_t>(number);
  }
  return hash;
}

// With error diffusion, the first row of a picture gets the errors of the last row of the one before it
// (libswscale/swscale.c clears them only where bit-exactness is asked for). It is an option, and the default of some
// formats with fewer than 8 bits.
bool may_diffuse_errors(const ScaleCase& wanted) noexcept {
  const AVPixFmtDescriptor* target = av_pix_fmt_desc_get(wanted.to_format);
  const bool is_shallow = target == nullptr || std::any_of(target->comp, target->comp + target->nb_components,
                                                           [](const auto& component) { return component.depth < 8; });
  return is_shallow || wanted.flags.find("error_diffusion") != std::string::npos;
}

}  // namespace

void KeptScaler::PutAway::operator()(KeptScaler* scaler) const noexcept {
  std::unique_ptr<KeptScaler> owner(scaler);
  const ScaleCase& wanted = owner->wanted;
  if (!owner->is_sound || std::max(wanted.width, wanted.to_width) > kMostWidth || may_diffuse_errors(wanted)) {
    return;
  }
  if (std::int64_t{wanted.to_width} * wanted.to_height > kMostRgbPixels) {
    owner->rgb.reset();
  }
  pool().put(hash_of(wanted), std::move(owner));
}

KeptScalerPtr take_scaler(const ScaleCase& wanted) {
  if (auto kept = pool().take(hash_of(wanted), [&](const KeptScaler& idle) { return idle.wanted == wanted; })) {
    return KeptScalerPtr(kept.release());
  }
  const ScaleFacts facts = find_scale_facts(wanted);
  if (facts.rules == ScaleRules::kUnknown) {
    return nullptr;
  }
  auto made = std::make_unique<KeptScaler>();
  made->wanted = wanted;
  made->facts = facts;
  made->made = make_scale_context(wanted, facts);
  return made->made.context == nullptr ? nullptr : KeptScalerPtr(made.release());
}

}  // namespace spdl
