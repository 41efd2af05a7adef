#include "archive/npy.h"

#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/sniff.h"

namespace spdl {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
// NumPy's arrays have at most 64 dimensions, those before version 2 at most 32.
constexpr std::size_t kMostDimensions = 64;

Error damage(const std::string& reason) { return {ErrorKind::kArchive, "read the npy data", reason}; }

constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The part of Python's grammar that such a dict needs.
class DictReader {
 public:
  explicit DictReader(std::string_view text) noexcept : text_(text) {}

  NpyHeader read() {
    std::optional<std::string_view> descr;
    std::optional<bool> is_fortran_order;
    std::optional<std::vector<std::uint64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr) {
        const char next = peek();
        if (next == '[' || next == '(') {
          throw damage("its dtype is structured; only plain dtypes can be viewed");
        }
        descr = string();
      } else if (key == "fortran_order" && !is_fortran_order) {
        is_fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = integers();
      } else {
        throw damage("its header has an unexpected or repeated key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    peek();
    if (at_ != text_.size()) {
      throw damage("something follows the dict in its header");
    }
    if (!descr || !is_fortran_order || !shape) {
      throw damage("its header lacks one of descr, fortran_order and shape");
    }
    check_dtype(*descr);
    return {std::string(*descr), *is_fortran_order, std::move(*shape), 0};
  }

 private:
  // Next character that is not space; NUL at the end.
  char peek() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) noexcept {
    const bool is_next = peek() == c && at_ < text_.size();
    at_ += is_next ? 1 : 0;
    return is_next;
  }

  void expect(char c) {
    if (!accept(c)) {
      throw damage(std::string("its header is not a valid dict: '") + c + "' is missing at character " +
                   std::to_string(at_));
    }
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      throw damage("its header must have a string at character " + std::to_string(at_));
    }
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) {
      throw damage("a string in its header is not terminated");
    }
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair("True"sv, true), std::pair("False"sv, false)}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    throw damage("fortran_order in its header is neither True nor False");
  }

  std::vector<std::uint64_t> integers() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (values.size() > kMostDimensions) {
        throw damage("its shape has more than " + std::to_string(kMostDimensions) + " dimensions");
      }
      const bool has_comma = accept(',');
      if (!has_comma && values.size() == 1) {
        throw damage("its shape is not a tuple");
      }
      if (!has_comma) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::uint64_t integer() {
    if (!is_digit(peek())) {
      throw damage("its shape has an element that is not a size");
    }
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    std::uint64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (value > (kMost - 9) / 10) {
        throw damage("its array would be larger than the address space");
      }
      value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
    }
    if (at_ < text_.size() && text_[at_] == 'L') {  // as Python 2 wrote
      ++at_;
    }
    return value;
  }

  // A byte order, letters, digits, and the unit of a time. What it stands for, NumPy knows.
  static void check_dtype(std::string_view descr) {
    std::string_view rest = descr;
    if (!rest.empty() && "<>|="sv.find(rest.front()) != std::string_view::npos) {
      rest.remove_prefix(1);
    }
    if (rest == "O" || rest == "O8" || rest == "O4" || rest == "object") {
      throw damage("its dtype holds Python objects, and loading them could run any code; only plain dtypes can be viewed");
    }
    bool is_word = !rest.empty() && (is_letter(rest.front()) || rest.front() == '?');
    bool is_in_unit = false;
    for (std::size_t i = 1; i < rest.size(); ++i) {
      is_word = is_word && (is_letter(rest[i]) || is_digit(rest[i]) || (rest[i] == '[' && !is_in_unit) ||
                            (is_in_unit && (rest[i] == '/' || (rest[i] == ']' && i + 1 == rest.size()))));
      is_in_unit = is_in_unit || rest[i] == '[';
    }
    if (!is_word) {
      throw damage("its dtype is not a valid dtype string");
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader read_npy_header(std::span<const std::uint8_t> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (!bytes.starts_with(kMagic)) {
    throw damage("it does not begin with \\x93NUMPY" + describe_beginning(file));
  }
  constexpr std::size_t kVersion = 6;
  constexpr std::size_t kLength = 8;
  if (bytes.size() < kLength) {
    throw damage("it ends inside its header");
  }
  const int version = file[kVersion];
  const int minor = file[kVersion + 1];
  if (version < 1 || version > 3 || minor != 0) {
    throw damage("it is of version " + std::to_string(version) + "." + std::to_string(minor) +
                 "; 1.0, 2.0 and 3.0 are known");
  }
  const std::size_t begin = kLength + (version == 1 ? 2 : 4);
  if (bytes.size() < begin) {
    throw damage("it ends inside its header");
  }
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > kLength;) {  // little-endian
    length = length << 8 | file[i];
  }
  if (length > bytes.size() - begin) {
    throw damage("it ends inside its header");
  }
  NpyHeader header = DictReader(bytes.substr(begin, length)).read();
  header.offset = begin + length;
  return header;
}

}  // namespace spdl
