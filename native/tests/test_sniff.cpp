#include "base/sniff.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

using namespace std::string_view_literals;

namespace spdl {
namespace {

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("the longer of two signatures with one beginning names the format") {
  CHECK(sniff_format(bytes_of("\0\0\0\x20" "ftypavif"sv)) == "AVIF");
  CHECK(sniff_format(bytes_of("\0\0\0\x20" "ftypisom"sv)) == "MP4");
  CHECK(sniff_format(bytes_of("RIFF\0\0\0\0WAVEfmt "sv)) == "WAV");
  CHECK(sniff_format(bytes_of("RIFF\0\0\0\0WEBPVP8 "sv)) == "WebP");
  CHECK(sniff_format(bytes_of("RIFF\0\0\0\0AVI LIST"sv)) == "AVI");
  CHECK(sniff_format(bytes_of("RIFF\0\0\0\0rmid"sv)) == "RIFF");
}

TEST_CASE("data that is shorter than its signature is of no format") {
  CHECK(sniff_format({}).empty());
  CHECK(sniff_format(bytes_of("\xff\xd8"sv)).empty());
  CHECK(sniff_format(bytes_of("\x89PNG\r\n"sv)).empty());
  CHECK(sniff_format(bytes_of("\0\0\0\x20" "fty"sv)).empty());
  CHECK(sniff_format(bytes_of("<htm"sv)).empty());
  CHECK(sniff_format(bytes_of("RIFF\0\0\0\0WEB"sv)) == "RIFF");
}

TEST_CASE("WEBP without RIFF in front is not WebP") {
  CHECK(sniff_format(bytes_of("12345678WEBP"sv)).empty());
}

TEST_CASE("markup is recognised in either case") {
  CHECK(sniff_format(bytes_of("<!DOCTYPE html><html>"sv)) == "HTML");
  CHECK(sniff_format(bytes_of("<!doctype HTML>"sv)) == "HTML");
  CHECK(sniff_format(bytes_of("<HTML>"sv)) == "HTML");
  CHECK(sniff_format(bytes_of("<SVG "sv)) == "SVG");
}

TEST_CASE("text may begin with a byte-order mark and white space") {
  CHECK(sniff_format(bytes_of("\r\n\t <html>"sv)) == "HTML");
  CHECK(sniff_format(bytes_of("\xef\xbb\xbf<?xml "sv)) == "XML");
  CHECK(sniff_format(bytes_of("<Error><Code>"sv)) == "XML");
  CHECK(sniff_format(bytes_of("\xef\xbb\xbf\n {"sv)) == "JSON");
  CHECK(sniff_format(bytes_of("[1]"sv)) == "JSON");
  CHECK(sniff_format(bytes_of("\xef\xbb\xbf"sv)).empty());
  CHECK(sniff_format(bytes_of("   "sv)).empty());
}

TEST_CASE("what to do stands behind what it looks like") {
  CHECK(describe_beginning(bytes_of("\x1f\x8b\x08"sv)) == "; it looks like gzip; decompress it first");
  CHECK(describe_beginning(bytes_of("<html>"sv)) == "; it looks like HTML; see what the server said");
  CHECK(describe_beginning(bytes_of("\xff\xd8\xff\xe0"sv)) == "; it looks like JPEG");
  CHECK(describe_beginning(bytes_of("plain text"sv)).empty());
}

}  // namespace spdl
