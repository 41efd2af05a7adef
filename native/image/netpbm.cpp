#include "image/netpbm.h"

#include <charconv>
#include <string>

namespace spdl {
namespace {

bool is_blank(std::uint32_t byte) noexcept { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

void skip_comment(Bytes data, std::size_t& at) noexcept {
  while (at < data.size() && data[at] != '\n' && data[at] != '\r') {
    ++at;
  }
}

void skip_blanks(Bytes data, std::size_t& at) noexcept {
  for (; at < data.size(); ++at) {
    if (data[at] == '#') {
      skip_comment(data, at);
    } else if (!is_blank(data[at])) {
      return;
    }
  }
}

std::string_view next_word(Bytes data, std::size_t& at) noexcept {
  skip_blanks(data, at);
  const std::size_t begin = at;
  while (at < data.size() && !is_blank(data[at])) {
    ++at;
  }
  return {reinterpret_cast<const char*>(data.data()) + begin, at - begin};
}

template <class Number>
bool read_number(std::string_view word, Number& number) noexcept {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

std::string_view rest_of_line(Bytes data, std::size_t& at) noexcept {
  while (at < data.size() && data[at] != '\n' && is_blank(data[at])) {
    ++at;
  }
  const std::size_t begin = at;
  while (at < data.size() && data[at] != '\n') {
    ++at;
  }
  std::size_t end = at;
  while (end > begin && is_blank(data[end - 1])) {
    --end;
  }
  return {reinterpret_cast<const char*>(data.data()) + begin, end - begin};
}

// pam(5): lines of a name and a value, in any order.
bool read_pam(Bytes data, std::size_t& at, NetpbmHeader& header) noexcept {
  header.depth = 0;
  header.most = 0;
  while (at < data.size()) {
    const std::string_view name = next_word(data, at);
    if (name == "ENDHDR") {
      rest_of_line(data, at);
      return header.depth > 0 && header.most > 0;
    }
    const std::string_view value = rest_of_line(data, at);
    bool is_sound = true;
    if (name == "WIDTH") {
      is_sound = read_number(value, header.width);
    } else if (name == "HEIGHT") {
      is_sound = read_number(value, header.height);
    } else if (name == "DEPTH") {
      is_sound = read_number(value, header.depth);
    } else if (name == "MAXVAL") {
      is_sound = read_number(value, header.most);
    } else if (name == "TUPLTYPE") {
      header.tuple = value;
    } else {
      return false;
    }
    if (!is_sound) {
      return false;
    }
  }
  return false;
}

// pbm(5), pgm(5), ppm(5), and pfm(5), whose scale is a number with a point.
bool read_plain_header(Bytes data, std::size_t& at, NetpbmHeader& header) noexcept {
  const auto width = next_number(data, at);
  const auto height = next_number(data, at);
  if (!width || !height) {
    return false;
  }
  header.width = *width;
  header.height = *height;
  header.depth = header.kind == '3' || header.kind == '6' || header.kind == 'F' || header.kind == 'H' ? 3 : 1;
  if (header.is_float()) {
    return read_number(next_word(data, at), header.scale) && header.scale != 0;
  }
  if (header.is_bits()) {
    return true;
  }
  const auto most = next_number(data, at);
  header.most = most.value_or(0);
  return most.has_value();
}

}  // namespace

std::optional<std::uint32_t> next_number(Bytes data, std::size_t& at, int most_digits) noexcept {
  skip_blanks(data, at);
  std::uint32_t number = 0;
  int num_digits = 0;
  for (; at < data.size() && data[at] >= '0' && data[at] <= '9' && num_digits < most_digits; ++at, ++num_digits) {
    number = 10 * number + (data[at] - '0');
  }
  return num_digits > 0 ? std::optional(number) : std::nullopt;
}

std::optional<NetpbmHeader> netpbm_header(Bytes data) noexcept {
  NetpbmHeader header;
  header.kind = static_cast<char>(byte_at(data, 1));
  if (byte_at(data, 0) != 'P' || std::string_view("1234567fFhH").find(header.kind) == std::string_view::npos) {
    return std::nullopt;
  }
  std::size_t at = 2;
  const bool is_sound = header.kind == '7' ? read_pam(data, at, header) : read_plain_header(data, at, header);
  constexpr std::uint32_t kMost = 65535;
  constexpr std::int64_t kMostPixels = 0x7fffffff;
  // One blank is behind the header.
  if (!is_sound || at >= data.size() || !is_blank(data[at]) || header.width < 1 || header.height < 1 || header.depth < 1 ||
      header.width > kMostPixels || header.height > kMostPixels || header.depth > static_cast<int>(kMost) ||
      header.most < 1 || header.most > kMost) {
    return std::nullopt;
  }
  header.size = at + 1;
  return header;
}

}  // namespace spdl
