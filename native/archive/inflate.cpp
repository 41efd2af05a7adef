#include "archive/inflate.h"

#ifdef SPDL_LIBDEFLATE

#include <dlfcn.h>
#include <libdeflate.h>

#include <cstddef>
#include <memory>

namespace spdl {
namespace {

struct Free {
  void operator()(libdeflate_decompressor* decompressor) const noexcept { libdeflate_free_decompressor(decompressor); }
};

}  // namespace

std::string_view libdeflate_version() noexcept { return LIBDEFLATE_VERSION_STRING; }

const char* libdeflate_path() noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&libdeflate_crc32), &found) != 0 && found.dli_fname != nullptr
             ? found.dli_fname
             : "";
}

bool inflate(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept {
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  if (decompressor == nullptr) {
    return false;
  }
  // Asking for the size of the input allows data after the stream; not asking for that of the output forbids less.
  std::size_t num_read = 0;
  return libdeflate_deflate_decompress_ex(decompressor.get(), compressed.data(), compressed.size(), out.data(),
                                          out.size(), &num_read, nullptr) == LIBDEFLATE_SUCCESS;
}

std::optional<std::uint32_t> inflate_zlib(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept {
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  if (decompressor == nullptr ||
      libdeflate_zlib_decompress(decompressor.get(), compressed.data(), compressed.size(), out.data(), out.size(), nullptr) !=
          LIBDEFLATE_SUCCESS) {
    return std::nullopt;
  }
  return libdeflate_adler32(1, out.data(), out.size());
}

std::optional<std::size_t> inflate_zlib_up_to(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) noexcept {
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  std::size_t size = 0;
  if (decompressor == nullptr || libdeflate_zlib_decompress(decompressor.get(), compressed.data(), compressed.size(),
                                                            out.data(), out.size(), &size) != LIBDEFLATE_SUCCESS) {
    return std::nullopt;
  }
  return size;
}

std::optional<std::uint32_t> crc32(std::span<const std::uint8_t> data) noexcept {
  return libdeflate_crc32(0, data.data(), data.size());
}

}  // namespace spdl

#else

namespace spdl {

std::string_view libdeflate_version() noexcept { return {}; }

const char* libdeflate_path() noexcept { return ""; }

bool inflate(std::span<const std::uint8_t>, std::span<std::uint8_t>) noexcept { return false; }

std::optional<std::uint32_t> inflate_zlib(std::span<const std::uint8_t>, std::span<std::uint8_t>) noexcept {
  return std::nullopt;
}

std::optional<std::size_t> inflate_zlib_up_to(std::span<const std::uint8_t>, std::span<std::uint8_t>) noexcept {
  return std::nullopt;
}

std::optional<std::uint32_t> crc32(std::span<const std::uint8_t>) noexcept { return std::nullopt; }

}  // namespace spdl

#endif
