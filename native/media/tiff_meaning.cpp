#include "media/tiff_meaning.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace spdl::tiff {
namespace {

// From values of `bits` to levels of `depth` bits, white to white.
std::vector<std::uint16_t> levels_of(unsigned bits, unsigned depth, bool is_inverted) {
  if (bits == depth && !is_inverted) {
    return {};
  }
  const std::uint32_t most = (1U << bits) - 1;
  const std::uint32_t white = (1U << depth) - 1;
  std::vector<std::uint16_t> levels(std::size_t{most} + 1);
  for (std::uint32_t value = 0; value <= most; ++value) {
    const std::uint64_t level = is_inverted ? most - value : value;
    levels[value] = static_cast<std::uint16_t>((level * white + most / 2) / most);
  }
  return levels;
}

// The upper byte of each entry, as Pillow takes it; files of old programs have no more than the lower one (checkcmap of
// libtiff's tif_getimage.c).
std::vector<TiffComponent> components_of_palette(TIFF& tiff, unsigned bits) {
  std::array<std::uint16_t*, 3> maps{};
  if (TIFFGetField(&tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0 || maps[2] == nullptr) {
    refuse("it has no palette, and its pixels are indices of one");
  }
  const std::size_t size = std::size_t{1} << bits;
  const bool has_bytes = std::all_of(maps.begin(), maps.end(), [&](const std::uint16_t* map) {
    return std::all_of(map, map + size, [](std::uint16_t level) { return level < 256; });
  });
  std::vector<TiffComponent> components;
  for (const std::uint16_t* map : maps) {
    TiffComponent component{0, {map, map + size}};
    for (std::uint16_t& level : component.levels) {
      level = static_cast<std::uint16_t>(has_bytes ? level : level >> 8);
    }
    components.push_back(std::move(component));
  }
  return components;
}

}  // namespace

std::string reason_against_levels(TIFF& tiff, const Facts& facts) {
  const std::string bits = std::to_string(facts.bits) + " bits";
  if (facts.kind == SAMPLEFORMAT_INT) {
    return "signed integers of " + bits;
  }
  if (facts.kind == SAMPLEFORMAT_IEEEFP) {
    return "floating-point numbers of " + bits;
  }
  if (facts.kind != SAMPLEFORMAT_UINT && facts.kind != SAMPLEFORMAT_VOID) {
    return "complex numbers of " + bits;
  }
  if (facts.bits > 16) {
    return "integers of " + bits;
  }
  switch (facts.meaning) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MASK:
      return facts.samples > 2 ? "of " + std::to_string(facts.samples) + " channels that are no colours" : "";
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_PALETTE:
    case PHOTOMETRIC_YCBCR:
      return facts.samples < facts.num_colours ? "fewer than the colours have components" : "";
    case PHOTOMETRIC_SEPARATED:
      return field<std::uint16_t>(tiff, TIFFTAG_INKSET, INKSET_CMYK) != INKSET_CMYK || facts.samples != 4 ||
                     (facts.bits != 8 && facts.bits != 16)
                 ? "of " + std::to_string(facts.samples) + " inks of " + bits + ", which are not plain CMYK"
                 : "";
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      return "colours in L*a*b*";
    default:
      return "of photometric interpretation " + std::to_string(facts.meaning);
  }
}

std::optional<ElementType> element_of(const Facts& facts) noexcept {
  const bool is_float = facts.kind == SAMPLEFORMAT_IEEEFP;
  const bool is_whole = facts.bits == 8 || facts.bits == 16 || facts.bits == 32 || facts.bits == 64;
  const bool is_known = is_float || facts.kind == SAMPLEFORMAT_INT || facts.kind == SAMPLEFORMAT_UINT ||
                        facts.kind == SAMPLEFORMAT_VOID;
  if (!is_whole || !is_known || (is_float && facts.bits == 8)) {
    return std::nullopt;
  }
  return ElementType{is_float ? 'f' : facts.kind == SAMPLEFORMAT_INT ? 'i' : 'u', facts.bits / 8};
}

AVPixelFormat format_of_ycbcr(const Facts& facts) noexcept {
  struct Known {
    int across, down;
    AVPixelFormat format;
  };
  constexpr std::array kKnown = {Known{1, 1, AV_PIX_FMT_YUV444P}, Known{2, 1, AV_PIX_FMT_YUV422P},
                                 Known{2, 2, AV_PIX_FMT_YUV420P}, Known{1, 2, AV_PIX_FMT_YUV440P},
                                 Known{4, 1, AV_PIX_FMT_YUV411P}, Known{4, 4, AV_PIX_FMT_YUV410P}};
  const auto* found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return known.across == facts.across && known.down == facts.down;
  });
  const bool is_plain = facts.bits == 8 && facts.samples == 3 && (!facts.is_planar || facts.across * facts.down == 1);
  return found != kKnown.end() && is_plain ? found->format : AV_PIX_FMT_NONE;
}

// TIFF 6.0, sections 20 and 21.
void set_colours(TIFF& tiff, AVFrame& frame) {
  float* weights = nullptr;
  float* limits = nullptr;
  TIFFGetFieldDefaulted(&tiff, TIFFTAG_YCBCRCOEFFICIENTS, &weights);
  TIFFGetFieldDefaulted(&tiff, TIFFTAG_REFERENCEBLACKWHITE, &limits);
  const auto is = [](const float* values, std::initializer_list<float> wanted, float tolerance) {
    return std::equal(wanted.begin(), wanted.end(), values,
                      [&](float a, float b) { return a - b < tolerance && b - a < tolerance; });
  };
  if (weights == nullptr || is(weights, {0.299F, 0.587F, 0.114F}, 1e-3F)) {
    frame.colorspace = AVCOL_SPC_BT470BG;
  } else if (is(weights, {0.2126F, 0.7152F, 0.0722F}, 1e-3F)) {
    frame.colorspace = AVCOL_SPC_BT709;
  } else {
    refuse("its YCbCr has coefficients that are neither those of BT.601 nor of BT.709");
  }
  if (limits == nullptr || is(limits, {0, 255, 128, 255, 128, 255}, 0.5F)) {
    frame.color_range = AVCOL_RANGE_JPEG;
  } else if (is(limits, {16, 235, 128, 240, 128, 240}, 0.5F)) {
    frame.color_range = AVCOL_RANGE_MPEG;
  } else {
    refuse("its YCbCr has black and white (ReferenceBlackWhite) neither at 0 and 255 nor at 16 and 235");
  }
}

AVPixelFormat format_of_levels(const Facts& facts) noexcept {
  const bool is_gray = facts.meaning == PHOTOMETRIC_MINISWHITE || facts.meaning == PHOTOMETRIC_MINISBLACK ||
                       facts.meaning == PHOTOMETRIC_MASK;
  const bool is_inks = facts.meaning == PHOTOMETRIC_SEPARATED;
  const bool has_alpha = facts.alpha.has_value() || is_inks;
  if (facts.bits <= 8 || facts.meaning == PHOTOMETRIC_PALETTE) {
    return is_gray ? (has_alpha ? AV_PIX_FMT_YA8 : AV_PIX_FMT_GRAY8) : has_alpha ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
  }
  if (!has_alpha) {
    switch (facts.bits) {
      case 9:
        return is_gray ? AV_PIX_FMT_GRAY9 : AV_PIX_FMT_GBRP9;
      case 10:
        return is_gray ? AV_PIX_FMT_GRAY10 : AV_PIX_FMT_GBRP10;
      case 12:
        return is_gray ? AV_PIX_FMT_GRAY12 : AV_PIX_FMT_GBRP12;
      case 14:
        return is_gray ? AV_PIX_FMT_GRAY14 : AV_PIX_FMT_GBRP14;
      default:
        break;
    }
  }
  return is_gray ? (has_alpha ? AV_PIX_FMT_YA16 : AV_PIX_FMT_GRAY16) : has_alpha ? AV_PIX_FMT_RGBA64 : AV_PIX_FMT_RGB48;
}

std::vector<TiffComponent> components_of(TIFF& tiff, const Facts& facts, AVPixelFormat format) {
  const auto depth = static_cast<unsigned>(av_pix_fmt_desc_get(format)->comp[0].depth);
  std::vector<TiffComponent> components;
  if (facts.meaning == PHOTOMETRIC_PALETTE) {
    components = components_of_palette(tiff, facts.bits);
  } else {
    for (unsigned i = 0; i < facts.num_colours; ++i) {
      components.push_back({i, levels_of(facts.bits, depth, facts.meaning == PHOTOMETRIC_MINISWHITE)});
    }
  }
  if (facts.alpha) {
    components.push_back({*facts.alpha, levels_of(facts.bits, depth, false)});
  }
  return components;
}

}  // namespace spdl::tiff
