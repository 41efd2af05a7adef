#include "archive/sniff.h"

#include <algorithm>
#include <string_view>

namespace spdl {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* name;
  const char* remedy;
};

constexpr const char* kDecompress = "; decompress it first";

// Sources: RFC 1952, RFC 8878, the formats' own descriptions, and file(1)'s list of magic numbers.
constexpr Beginning kBeginnings[] = {
    {"\x1f\x8b"sv, "gzip", kDecompress},
    {"BZh"sv, "bzip2", kDecompress},
    {"\xfd" "7zXZ\0"sv, "xz", kDecompress},
    {"\x28\xb5\x2f\xfd"sv, "zstd", kDecompress},
    {"\x04\x22\x4d\x18"sv, "lz4", kDecompress},
    {"PK\x03\x04"sv, "zip", ""},
    {"PK\x05\x06"sv, "an empty zip", ""},
    {"7z\xbc\xaf\x27\x1c"sv, "7-Zip", ""},
    {"Rar!\x1a\x07"sv, "RAR", ""},
    {"\x93NUMPY"sv, "npy", ""},
    {"\x89PNG"sv, "PNG", ""},
    {"\xff\xd8\xff"sv, "JPEG", ""},
    {"RIFF"sv, "RIFF (WAV, WebP, AVI)", ""},
    {"%PDF"sv, "PDF", ""},
    {"<!doctype html"sv, "HTML", "; see what the server said"},
    {"<html"sv, "HTML", "; see what the server said"},
    {"<?xml"sv, "XML", "; see what the server said"},
    {"{"sv, "JSON", ""},
    {"version https://git-lfs"sv, "a Git LFS pointer", "; fetch the file with `git lfs pull`"},
};

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_with(std::string_view text, std::string_view bytes) noexcept {
  return text.size() >= bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), text.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::string describe_beginning(std::span<const std::uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), std::min<std::size_t>(data.size(), 64));
  for (const Beginning& each : kBeginnings) {
    if (begins_with(text, each.bytes)) {
      return std::string("; it looks like ") + each.name + each.remedy;
    }
  }
  return "";
}

}  // namespace spdl
