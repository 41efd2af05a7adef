#include "image/sniff.h"

#include <array>
#include <cstddef>

namespace spdl {
namespace {

struct Signature {
  std::string_view name;
  std::size_t offset;
  std::string_view bytes;
};

using namespace std::string_view_literals;

// From the formats' own specifications. The longer signature stands before a shorter one that it begins with.
constexpr std::array kSignatures = {
    Signature{"JPEG", 0, "\xff\xd8\xff"sv},
    Signature{"PNG", 0, "\x89PNG\r\n\x1a\n"sv},
    Signature{"GIF", 0, "GIF8"sv},
    Signature{"WebP", 8, "WEBP"sv},
    Signature{"AVIF", 4, "ftypavif"sv},
    Signature{"AVIF", 4, "ftypavis"sv},
    Signature{"HEIF", 4, "ftyphei"sv},
    Signature{"HEIF", 4, "ftypmif1"sv},
    Signature{"MP4", 4, "ftyp"sv},
    Signature{"TIFF", 0, "II*\0"sv},
    Signature{"TIFF", 0, "MM\0*"sv},
    Signature{"JPEG 2000", 0, "\0\0\0\x0cjP  "sv},
    Signature{"JPEG 2000", 0, "\xff\x4f\xff\x51"sv},
    Signature{"JPEG XL", 0, "\0\0\0\x0cJXL "sv},
    Signature{"JPEG XL", 0, "\xff\x0a"sv},
    Signature{"PSD", 0, "8BPS"sv},
    Signature{"QOI", 0, "qoif"sv},
    Signature{"OpenEXR", 0, "\x76\x2f\x31\x01"sv},
    Signature{"PDF", 0, "%PDF"sv},
    Signature{"ZIP", 0, "PK\3\4"sv},
    Signature{"gzip", 0, "\x1f\x8b"sv},
    Signature{"Matroska or WebM", 0, "\x1a\x45\xdf\xa3"sv},
    Signature{"HTML", 0, "<!DOCTYPE"sv},
    Signature{"HTML", 0, "<html"sv},
    Signature{"SVG or XML", 0, "<?xml"sv},
    Signature{"SVG or XML", 0, "<svg"sv},
    Signature{"BMP", 0, "BM"sv},
};

}  // namespace

std::string_view sniff_format(std::span<const std::uint8_t> data) noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(data.data()), data.size());
  for (const Signature& signature : kSignatures) {
    if (bytes.size() >= signature.offset && bytes.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.name;
    }
  }
  return {};
}

}  // namespace spdl
