#include "av/memory_output.h"

extern "C" {
#include <libavutil/error.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

namespace spdl::av {
namespace {

constexpr int kBufferSize = 32768;

}  // namespace

void MemoryOutput::Close::operator()(AVIOContext* context) const noexcept {
  av_freep(&context->buffer);
  avio_context_free(&context);
}

MemoryOutput::MemoryOutput() {
  auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferSize));
  if (buffer == nullptr) {
    throw std::bad_alloc();
  }
  context_.reset(avio_alloc_context(buffer, kBufferSize, 1, this, nullptr, &write, &seek));
  if (!context_) {
    av_free(buffer);
    throw std::bad_alloc();
  }
}

std::vector<std::uint8_t> MemoryOutput::take() {
  avio_flush(context_.get());
  if (context_->error < 0) {
    throw std::bad_alloc();
  }
  return std::move(bytes_);
}

template <class Byte>
int MemoryOutput::write(void* self, Byte* bytes, int size) noexcept {
  auto& output = *static_cast<MemoryOutput*>(self);
  try {
    const std::size_t end = output.position_ + static_cast<std::size_t>(size);
    output.bytes_.resize(std::max(output.bytes_.size(), end));
    std::copy(bytes, bytes + size, output.bytes_.begin() + static_cast<std::ptrdiff_t>(output.position_));
    output.position_ = end;
  } catch (const std::exception&) {
    return AVERROR(ENOMEM);
  }
  return size;
}

std::int64_t MemoryOutput::seek(void* self, std::int64_t offset, int whence) noexcept {
  auto& output = *static_cast<MemoryOutput*>(self);
  const auto size = static_cast<std::int64_t>(output.bytes_.size());
  whence &= ~AVSEEK_FORCE;
  if (whence == AVSEEK_SIZE) {
    return size;
  }
  const std::int64_t base = whence == SEEK_CUR ? static_cast<std::int64_t>(output.position_)
                            : whence == SEEK_END ? size
                                                 : 0;
  if (offset < -base) {
    return AVERROR(EINVAL);
  }
  // As in a file, writing beyond the end fills what is between with zeros.
  output.position_ = static_cast<std::size_t>(base + offset);
  return base + offset;
}

}  // namespace spdl::av
