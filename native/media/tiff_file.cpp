#include "media/tiff_file.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "base/error.h"
#include "image/tiff.h"

namespace spdl::tiff {
namespace {

constexpr tmsize_t kMostLibraryBytes = tmsize_t{1} << 30;

Memory& memory_of(thandle_t handle) noexcept { return *static_cast<Memory*>(handle); }

tmsize_t read(thandle_t handle, void* to, tmsize_t size) noexcept {
  Memory& memory = memory_of(handle);
  const std::uint64_t left = memory.position < memory.data.size() ? memory.data.size() - memory.position : 0;
  const std::uint64_t count = std::min(left, static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)));
  std::memcpy(to, memory.data.data() + (count > 0 ? memory.position : 0), count);
  memory.position += count;
  return static_cast<tmsize_t>(count);
}

toff_t seek(thandle_t handle, toff_t offset, int whence) noexcept {
  Memory& memory = memory_of(handle);
  memory.position = (whence == SEEK_CUR ? memory.position : whence == SEEK_END ? memory.data.size() : 0) + offset;
  return memory.position;
}

int map(thandle_t handle, void** data, toff_t* size) noexcept {
  const Memory& memory = memory_of(handle);
  *data = const_cast<std::uint8_t*>(memory.data.data());
  *size = memory.data.size();
  return 1;
}

std::string said(const char* module, const char* format, std::va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  return module != nullptr ? std::string(module) + ": " + text.data() : std::string(text.data());
}

// Errors and warnings end here: nothing is printed. An exception must not pass through libtiff.
int hear_error(TIFF*, void* user, const char* module, const char* format, std::va_list arguments) noexcept {
  try {
    std::string& error = static_cast<Memory*>(user)->error;
    error = error.empty() ? said(module, format, arguments) : error;
  } catch (const std::bad_alloc&) {  // the call fails all the same
  }
  return 1;
}

// libjpeg and the fax decoders fill in what is missing, and warn.
int hear_warning(TIFF*, void* user, const char* module, const char* format, std::va_list arguments) noexcept {
  const std::string_view from = module != nullptr ? module : "";
  if (from == "JPEGLib" || from.starts_with("Fax")) {
    try {
      std::string& warning = static_cast<Memory*>(user)->warning;
      warning = warning.empty() ? said(module, format, arguments) : warning;
    } catch (const std::bad_alloc&) {
    }
  }
  return 1;
}

unsigned num_colours_of(std::uint16_t meaning) noexcept {
  switch (meaning) {
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      return 1;
  }
}

// As TIFFRGBAImageBegin of libtiff guesses where the field is missing.
std::uint16_t guess_meaning(const Facts& facts) noexcept {
  const bool is_fax = facts.compression == COMPRESSION_CCITTFAX3 || facts.compression == COMPRESSION_CCITTFAX4 ||
                      facts.compression == COMPRESSION_CCITTRLE || facts.compression == COMPRESSION_CCITTRLEW;
  return facts.samples >= 3 ? PHOTOMETRIC_RGB : is_fax ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_MINISBLACK;
}

}  // namespace

void refuse(const std::string& reason) { throw Error(ErrorKind::kDecode, "decode", reason); }

TiffPtr open(Memory& memory) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 &TIFFOpenOptionsFree);
  if (options == nullptr) {
    throw std::bad_alloc();
  }
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &hear_error, &memory);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &hear_warning, &memory);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostLibraryBytes);
  const auto write = [](thandle_t, void*, tmsize_t) noexcept -> tmsize_t { return 0; };
  const auto close = [](thandle_t) noexcept { return 0; };
  const auto size = [](thandle_t handle) noexcept -> toff_t { return memory_of(handle).data.size(); };
  const auto unmap = [](thandle_t, void*, toff_t) noexcept {};
  // c: strips as they are in the file.
  TiffPtr tiff(TIFFClientOpenExt("TIFF", "rc", &memory, &read, write, &seek, close, size, &map, unmap, options.get()));
  if (tiff == nullptr) {
    refuse(memory.error.empty() ? "it is not a TIFF that libtiff can read" : memory.error);
  }
  return tiff;
}

Facts inspect(TIFF& tiff, Bytes data) {
  Facts facts;
  facts.width = field<std::uint32_t>(tiff, TIFFTAG_IMAGEWIDTH);
  facts.height = field<std::uint32_t>(tiff, TIFFTAG_IMAGELENGTH);
  facts.bits = field<std::uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE);
  facts.samples = field<std::uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  facts.kind = field<std::uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  facts.compression = field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  facts.is_planar = facts.samples > 1 && field<std::uint16_t>(tiff, TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
  facts.is_tiled = TIFFIsTiled(&tiff) != 0;
  if (TIFFGetField(&tiff, TIFFTAG_PHOTOMETRIC, &facts.meaning) == 0) {
    facts.meaning = guess_meaning(facts);
  }
  facts.num_colours = num_colours_of(facts.meaning);
  std::uint16_t num_extras = 0;
  std::uint16_t* extras = nullptr;
  TIFFGetFieldDefaulted(&tiff, TIFFTAG_EXTRASAMPLES, &num_extras, &extras);
  for (unsigned i = 0; i < num_extras && !facts.alpha; ++i) {
    if (extras[i] != EXTRASAMPLE_UNSPECIFIED) {
      facts.alpha = facts.num_colours + i;
    }
  }
  // As Pillow does; libtiff fills in a field that says "unspecified".
  const bool is_unsaid = !TiffDirectory(data).has(TIFFTAG_EXTRASAMPLES);
  if (is_unsaid && facts.samples == facts.num_colours + 1) {
    facts.alpha = facts.num_colours;
  }
  if (facts.alpha && *facts.alpha >= facts.samples) {
    refuse("it is damaged: its fields say that alpha is sample " + std::to_string(*facts.alpha) + " of " +
           std::to_string(facts.samples));
  }
  if (facts.is_ycbcr()) {
    if (facts.compression == COMPRESSION_JPEG && !facts.is_planar) {
      TIFFSetField(&tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      facts.meaning = PHOTOMETRIC_RGB;
    } else {
      // Without the field it is 2x2 by the standard, but files without subsampling lack it, too.
      const std::uint64_t whole = std::uint64_t{3} * facts.width * facts.height;
      if (!TiffDirectory(data).has(TIFFTAG_YCBCRSUBSAMPLING) && facts.compression == COMPRESSION_NONE &&
          !facts.is_tiled && TIFFNumberOfStrips(&tiff) == 1 && TIFFRawStripSize64(&tiff, 0) >= whole) {
        TIFFSetField(&tiff, TIFFTAG_YCBCRSUBSAMPLING, 1, 1);
      }
      std::uint16_t across = 2;
      std::uint16_t down = 2;
      TIFFGetFieldDefaulted(&tiff, TIFFTAG_YCBCRSUBSAMPLING, &across, &down);
      facts.across = across;
      facts.down = down;
    }
  }
  return facts;
}

}  // namespace spdl::tiff
