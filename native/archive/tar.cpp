#include "archive/tar.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/sniff.h"

namespace spdl {
namespace {

using Block = std::span<const std::uint8_t, kTarBlock>;

constexpr const char* kAction = "read the tar archive";

// An extension holds a name or attributes of one file. Larger than this it is damage, or meant to fill memory.
constexpr std::uint64_t kLargestExtension = std::uint64_t{16} << 20;

// struct posix_header: offset and size.
struct Field {
  std::size_t offset;
  std::size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr Field kMagic{257, 6};
constexpr Field kPrefix{345, 155};
constexpr std::size_t kType = 156;

std::string_view bytes_of(Block block, Field field) noexcept {
  return {reinterpret_cast<const char*>(block.data()) + field.offset, field.size};
}

// Up to the first NUL, or all of it.
std::string_view text_of(Block block, Field field) noexcept {
  const std::string_view bytes = bytes_of(block, field);
  return bytes.substr(0, std::min(bytes.find('\0'), bytes.size()));
}

Error damage(const std::string& reason) { return {ErrorKind::kArchive, kAction, reason}; }

// Octal digits between spaces, or nothing, which is 0; or GNU's base-256, a two's complement whose top bit is set.
std::optional<std::uint64_t> number_of(Block block, Field field) noexcept {
  const std::string_view bytes = bytes_of(block, field);
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  std::uint64_t value = 0;
  if ((first & 0x80) != 0) {
    value = first & 0x7f;
    if ((first & 0x40) != 0) {  // negative
      return std::nullopt;
    }
    for (const char byte : bytes.substr(1)) {
      if (value >> (63 - 8) != 0) {
        return std::nullopt;
      }
      value = value << 8 | static_cast<std::uint8_t>(byte);
    }
    return value;
  }
  std::size_t i = std::min(bytes.find_first_not_of(' '), bytes.size());
  for (; i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '7'; ++i) {
    value = value << 3 | static_cast<std::uint64_t>(bytes[i] - '0');
  }
  for (; i < bytes.size() && bytes[i] != '\0'; ++i) {
    if (bytes[i] != ' ') {
      return std::nullopt;
    }
  }
  return value;
}

bool is_checksum_right(Block block) noexcept {
  const std::optional<std::uint64_t> stated = number_of(block, kChecksum);
  // The field itself counts as spaces. The sum is of unsigned bytes; some old writers added signed ones.
  std::uint32_t sum = 0;
  for (const std::uint8_t byte : block) {
    sum += byte;
  }
  for (const char byte : bytes_of(block, kChecksum)) {
    sum += std::uint32_t{' '} - static_cast<std::uint8_t>(byte);
  }
  if (stated == sum) {
    return true;
  }
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool counts = i < kChecksum.offset || i >= kChecksum.offset + kChecksum.size;
    sum -= counts && block[i] >= 0x80 ? 0x100 : 0;
  }
  return stated == sum;
}

// Decimal digits and nothing else.
std::optional<std::uint64_t> decimal(std::string_view text) noexcept {
  std::uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || value > (std::numeric_limits<std::uint64_t>::max() - 9) / 10) {
      return std::nullopt;
    }
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

}  // namespace

Error tar_ends_early(const std::string& detail) { return damage("Failed to fetch data. " + detail); }

bool is_tar_zeros(Block block) noexcept {
  return block[0] == 0 && std::memcmp(block.data(), block.data() + 1, kTarBlock - 1) == 0;
}

bool is_tar_header(Block block) noexcept { return !is_tar_zeros(block) && is_checksum_right(block); }

std::string describe_tar_end(const TarEnd& end) {
  if (end.without_zeros) {
    return "ends at byte " + std::to_string(*end.without_zeros) +
           " without the zeros that end a tar archive: it may have been longer";
  }
  if (end.ignored) {
    return "has another archive behind its end, at byte " + std::to_string(*end.ignored) +
           ", which is ignored; ignore_zeros=True reads it too";
  }
  return {};
}

TarParser::Step TarParser::read_header(Block block, std::uint64_t position) {
  if (is_tar_zeros(block)) {
    if (has_local_) {
      throw damage("it ends after an extension header, before the member that the header describes");
    }
    return {DataKind::kEnd, 0};
  }
  if (!is_checksum_right(block)) {
    if (position == 0) {
      throw damage("it is not a tar archive: its first block is not a header" + describe_beginning(block));
    }
    throw damage("the header at byte " + std::to_string(position) + " is damaged: its checksum is wrong");
  }
  const auto type = static_cast<char>(block[kType]);
  const std::optional<std::uint64_t> stated = number_of(block, kSize);
  if (!stated) {
    throw damage("the header at byte " + std::to_string(position) + " is damaged: its size is not a number");
  }
  switch (type) {
    case 'x':
    case 'X':  // Solaris
    case 'g':
    case 'L':
    case 'K':  // the target of a link
      if (*stated > kLargestExtension) {
        throw damage("the extension header at byte " + std::to_string(position) + " is for " +
                     std::to_string(*stated) + " bytes, more than the " + std::to_string(kLargestExtension) +
                     " that are accepted");
      }
      extension_ = type;
      has_local_ = has_local_ || type != 'g';
      return {DataKind::kExtension, *stated};
    default:
      return announce(block, *stated, type);
  }
}

TarParser::Step TarParser::announce(Block block, std::uint64_t stated, char type) {
  const Overrides local = has_local_ ? std::exchange(local_, {}) : Overrides{};
  const std::optional<std::string> long_name = has_local_ ? std::exchange(long_name_, {}) : std::nullopt;
  has_local_ = false;
  const std::uint64_t size = local.size ? *local.size : global_.size ? *global_.size : stated;
  if (type >= '1' && type <= '6') {  // links, devices, directories, pipes: a size they state is of nothing that follows
    return {DataKind::kIgnored, 0};
  }
  // V7 knows directories by the end of their name.
  const std::string_view name = text_of(block, kName);
  if (type == '\0' && name.ends_with('/')) {
    return {DataKind::kIgnored, 0};
  }
  const bool is_sparse = type == 'S' || local.is_sparse || global_.is_sparse;
  if (type != '0' && type != '\0' && type != '7' && !is_sparse) {
    return {DataKind::kIgnored, size};
  }
  if (local.path) {
    name_ = *local.path;
  } else if (long_name) {
    name_ = *long_name;
  } else if (global_.path) {
    name_ = *global_.path;
  } else {
    // GNU's magic ("ustar ") and V7 have other things where POSIX has the prefix.
    const std::string_view prefix =
        bytes_of(block, kMagic) == std::string_view("ustar\0", 6) ? text_of(block, kPrefix) : std::string_view();
    name_.assign(prefix);
    if (!prefix.empty()) {
      name_ += '/';
    }
    name_ += name;
  }
  if (is_sparse) {
    throw damage("its member '" + name_ + "' is stored as a sparse file, which is not supported; make the archive without --sparse");
  }
  return {DataKind::kMember, size};
}

void TarParser::read_extension(std::span<const std::uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  switch (extension_) {
    case 'L':
      long_name_ = text.substr(0, std::min(text.find('\0'), text.size()));
      break;
    case 'x':
    case 'X':
      read_pax(text, local_);
      break;
    case 'g':
      read_pax(text, global_);
      break;
    default:
      break;
  }
}

// Records "<length> <key>=<value>\n", where the length counts the whole record.
void TarParser::read_pax(std::string_view records, Overrides& overrides) {
  const Error malformed = damage("one of its PAX headers is damaged");
  while (!records.empty() && records.front() != '\0') {
    const std::size_t space = std::min(records.find(' '), records.size());
    const std::optional<std::uint64_t> length = decimal(records.substr(0, space));
    if (!length || *length > records.size() || *length < space + 3 || records[*length - 1] != '\n') {
      throw malformed;
    }
    const std::string_view record = records.substr(space + 1, *length - space - 2);
    records.remove_prefix(*length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw malformed;
    }
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") {  // an empty value takes an earlier one back
      overrides.path = value.empty() ? std::nullopt : std::optional<std::string>(value);
    } else if (key == "size") {
      overrides.size = decimal(value);
      if (!overrides.size && !value.empty()) {
        throw malformed;
      }
    } else if (key.starts_with("GNU.sparse.")) {
      overrides.is_sparse = true;
    }
  }
}

bool TarReader::has_other_archive() {
  has_zeros_ = true;
  while (data_.size() - position_ >= kTarBlock) {
    const Block block = data_.subspan(position_).first<kTarBlock>();
    if (!is_tar_zeros(block)) {
      if (ignores_zeros_) {
        parser_.begin_archive();
        return true;
      }
      if (is_tar_header(block)) {
        end_.ignored = position_;
      }
      break;
    }
    position_ += kTarBlock;
  }
  position_ = data_.size();
  return false;
}

bool TarReader::next(TarMember& member) {
  for (;;) {
    const std::size_t left = data_.size() - position_;
    if (left == 0 && !is_cut_ && !parser_.expects_member()) {
      if (position_ != 0 && !has_zeros_) {
        end_.without_zeros = position_;
      }
      return false;
    }
    if (left < kTarBlock) {
      const char* place = is_cut_ ? "behind the last member" : left == 0 ? "where a header is due" : "inside of a header";
      throw tar_ends_early("The data ends at byte " + std::to_string(data_.size()) + ", " + place +
                           (position_ == 0 ? describe_beginning(data_) : ""));
    }
    const TarParser::Step step = parser_.read_header(data_.subspan(position_).first<kTarBlock>(), position_);
    if (step.kind == TarParser::DataKind::kEnd) {
      if (has_other_archive()) {
        continue;
      }
      return false;
    }
    has_zeros_ = false;
    position_ += kTarBlock;
    const std::size_t room = data_.size() - position_;
    if (step.size > room) {
      throw tar_ends_early("The data ends at byte " + std::to_string(data_.size()) + ", and what begins at byte " +
                           std::to_string(position_) + " has " + std::to_string(step.size) + " bytes");
    }
    const auto size = static_cast<std::size_t>(step.size);
    const std::span<const std::uint8_t> data = data_.subspan(position_, size);
    if (step.kind == TarParser::DataKind::kExtension) {
      parser_.read_extension(data);
    } else if (step.kind == TarParser::DataKind::kMember) {
      std::swap(member.name, parser_.name());
      member.offset = position_;
      member.size = size;
    }
    // Padding that is cut off costs nothing yet: the member is whole. The next call tells.
    position_ += size;
    const auto padding = static_cast<std::size_t>(tar_padding(size));
    is_cut_ = padding > data_.size() - position_;
    position_ += std::min(padding, data_.size() - position_);
    if (step.kind == TarParser::DataKind::kMember) {
      return true;
    }
  }
}

}  // namespace spdl
