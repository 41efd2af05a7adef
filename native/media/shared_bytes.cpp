#include "media/shared_bytes.h"

#include <new>
#include <utility>

namespace spdl {
namespace {

void release_owner(void* owner, std::uint8_t*) { delete static_cast<std::shared_ptr<const void>*>(owner); }

}  // namespace

SharedBytes share(const AVBufferRef& reference, std::span<const std::uint8_t> bytes) {
  std::shared_ptr<AVBufferRef> owner(av::own<av::BufferRefPtr>(av_buffer_ref(&reference)));
  return {bytes, std::move(owner)};
}

SharedBytes share(Buffer memory, std::size_t size) {
  auto owner = std::make_shared<const Buffer>(std::move(memory));
  const std::span<const std::uint8_t> bytes(owner->data(), size);
  return {bytes, std::move(owner)};
}

av::BufferRefPtr reference_to(const SharedBytes& owner, std::span<const std::uint8_t> bytes) {
  auto kept = std::make_unique<std::shared_ptr<const void>>(owner.owner);
  auto* data = const_cast<std::uint8_t*>(bytes.data());
  auto reference = av::own<av::BufferRefPtr>(
      av_buffer_create(data, bytes.size(), release_owner, kept.get(), AV_BUFFER_FLAG_READONLY));
  static_cast<void>(kept.release());
  return reference;
}

}  // namespace spdl
