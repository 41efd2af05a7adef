#include "base/sniff.h"

#include <algorithm>
#include <array>

namespace spdl {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view format;
  std::size_t offset;
  std::string_view bytes;
};

// From the formats' own specifications, and file(1)'s list of magic numbers. The first that fits counts: a longer
// signature stands before a shorter one that it begins with.
constexpr std::array kSignatures = {
    // images
    Signature{"JPEG", 0, "\xff\xd8\xff"sv},
    Signature{"PNG", 0, "\x89PNG\r\n\x1a\n"sv},
    Signature{"GIF", 0, "GIF8"sv},
    Signature{"AVIF", 4, "ftypavif"sv},
    Signature{"AVIF", 4, "ftypavis"sv},
    Signature{"HEIF", 4, "ftyphei"sv},
    Signature{"HEIF", 4, "ftyphev"sv},
    Signature{"HEIF", 4, "ftypmif"sv},
    Signature{"HEIF", 4, "ftypmsf1"sv},
    Signature{"TIFF", 0, "II*\0"sv},
    Signature{"TIFF", 0, "MM\0*"sv},
    Signature{"TIFF", 0, "II+\0\x08\0\0\0"sv},  // BigTIFF
    Signature{"TIFF", 0, "MM\0+\0\x08\0\0"sv},
    Signature{"JPEG 2000", 0, "\0\0\0\x0cjP  "sv},
    Signature{"JPEG 2000", 0, "\xff\x4f\xff\x51"sv},
    Signature{"JPEG XL", 0, "\0\0\0\x0cJXL "sv},
    Signature{"JPEG XL", 0, "\xff\x0a"sv},
    Signature{"PSD", 0, "8BPS"sv},
    Signature{"QOI", 0, "qoif"sv},
    Signature{"OpenEXR", 0, "\x76\x2f\x31\x01"sv},
    Signature{"Radiance HDR", 0, "#?RADIANCE"sv},
    Signature{"Radiance HDR", 0, "#?RGBE"sv},
    // sound and video
    Signature{"MP4", 4, "ftyp"sv},
    Signature{"Matroska or WebM", 0, "\x1a\x45\xdf\xa3"sv},
    Signature{"FLAC", 0, "fLaC"sv},
    Signature{"Ogg", 0, "OggS"sv},
    // archives and compressed data
    Signature{"gzip", 0, "\x1f\x8b"sv},  // RFC 1952
    Signature{"bzip2", 0, "BZh"sv},
    Signature{"xz", 0, "\xfd\x37zXZ\0"sv},
    Signature{"zstd", 0, "\x28\xb5\x2f\xfd"sv},  // RFC 8878
    Signature{"lz4", 0, "\x04\x22\x4d\x18"sv},
    Signature{"zip", 0, "PK\x03\x04"sv},
    Signature{"an empty zip", 0, "PK\x05\x06"sv},
    Signature{"7-Zip", 0, "7z\xbc\xaf\x27\x1c"sv},
    Signature{"RAR", 0, "Rar!\x1a\x07"sv},
    Signature{"npy", 0, "\x93NUMPY"sv},
    // others that are met in their place
    Signature{"PDF", 0, "%PDF"sv},
    Signature{"a Git LFS pointer", 0, "version https://git-lfs"sv},
    Signature{"BMP", 0, "BM"sv},
};

// What a file of RIFF says of itself behind its size.
constexpr std::array kRiffForms = {
    Signature{"WebP", 8, "WEBP"sv},
    Signature{"WAV", 8, "WAVE"sv},
    Signature{"AVI", 8, "AVI "sv},
};

// Text, whose case does not matter, after a byte-order mark and white space: what servers send instead of a file.
constexpr std::array kTexts = {
    Signature{"HTML", 0, "<!doctype html"sv},
    Signature{"HTML", 0, "<html"sv},
    Signature{"XML", 0, "<?xml"sv},
    Signature{"XML", 0, "<error"sv},  // of object stores
    Signature{"SVG", 0, "<svg"sv},
    Signature{"JSON", 0, "{"sv},
    Signature{"JSON", 0, "["sv},
};

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr bool is_same_letter(char a, char b) noexcept { return lower(a) == lower(b); }

bool has_at(std::string_view data, const Signature& signature) noexcept {
  return data.size() >= signature.offset && data.substr(signature.offset).starts_with(signature.bytes);
}

// ISO/IEC 23008-12, annex B: files of any codec may have a main brand of HEIF, and name others behind it.
bool has_brand(std::string_view data, std::string_view brand) noexcept {
  constexpr std::size_t kFirst = 16;
  for (std::size_t at = kFirst; at + brand.size() <= data.size() && at < static_cast<unsigned char>(data[3]); at += 4) {
    if (data.substr(at).starts_with(brand)) {
      return true;
    }
  }
  return false;
}

bool begins_as_text(std::string_view data, const Signature& signature) noexcept {
  const std::string_view start = data.substr(0, signature.bytes.size());
  return std::equal(start.begin(), start.end(), signature.bytes.begin(), signature.bytes.end(), is_same_letter);
}

// What to do about data of this format where another was expected.
std::string_view remedy_for(std::string_view format) noexcept {
  constexpr std::array kCompressed = {"gzip"sv, "bzip2"sv, "xz"sv, "zstd"sv, "lz4"sv};
  if (std::find(kCompressed.begin(), kCompressed.end(), format) != kCompressed.end()) {
    return "; decompress it first";
  }
  if (format == "HTML" || format == "XML" || format == "JSON") {
    return "; see what the server said";
  }
  return format == "a Git LFS pointer" ? "; fetch the file with `git lfs pull`" : "";
}

// A letter behind the P, a blank, and a number, a comment or, in PAM, a name.
bool is_netpbm(std::string_view data) noexcept {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  if (data.size() < 4 || data[0] != 'P' || "1234567fFhH"sv.find(data[1]) == data.npos || kBlanks.find(data[2]) == data.npos) {
    return false;
  }
  const std::size_t at = data.find_first_not_of(kBlanks, 2);
  if (at == data.npos) {
    return false;
  }
  const bool is_name = data[1] == '7' && data[at] >= 'A' && data[at] <= 'Z';
  const bool is_number = data[1] != '7' && data[at] >= '0' && data[at] <= '9';
  return data[at] == '#' || is_name || is_number;
}

}  // namespace

std::string_view sniff_format(std::span<const std::uint8_t> data) noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(data.data()), std::min(data.size(), kSniffedBytes));
  for (const Signature& signature : kSignatures) {
    if (has_at(bytes, signature)) {
      const bool is_avif = signature.format == "HEIF" && has_brand(bytes, "avif") && !has_brand(bytes, "heic");
      return is_avif ? "AVIF" : signature.format;
    }
  }
  if (bytes.starts_with("RIFX") || bytes.starts_with("RF64") || bytes.starts_with("BW64")) {
    // Of WAV files only.
    const auto is_wav = [&](const Signature& form) { return form.format == "WAV" && has_at(bytes, form); };
    return std::any_of(kRiffForms.begin(), kRiffForms.end(), is_wav) ? "WAV" : std::string_view{};
  }
  if (bytes.starts_with("RIFF")) {
    for (const Signature& form : kRiffForms) {
      if (has_at(bytes, form)) {
        return form.format;
      }
    }
    return "RIFF";
  }
  if (is_netpbm(bytes)) {
    return "Netpbm";
  }
  const std::string_view unmarked = bytes.substr(bytes.starts_with("\xef\xbb\xbf") ? 3 : 0);
  const std::string_view text = unmarked.substr(std::min(unmarked.find_first_not_of(" \t\r\n"), unmarked.size()));
  for (const Signature& tag : kTexts) {
    if (begins_as_text(text, tag)) {
      return tag.format;
    }
  }
  return {};
}

std::string describe_beginning(std::span<const std::uint8_t> data) {
  const std::string_view format = sniff_format(data);
  if (format.empty()) {
    return "";
  }
  return std::string("; it looks like ").append(format).append(remedy_for(format));
}

}  // namespace spdl
