#include "media/part.h"

#include <new>
#include <utility>

namespace spdl {
namespace {

void release_owner(void* owner, std::uint8_t*) { delete static_cast<std::shared_ptr<const void>*>(owner); }

}  // namespace

Part part_of(const AVBufferRef& reference, std::span<const std::uint8_t> bytes) {
  std::shared_ptr<AVBufferRef> owner(av::own<av::BufferRefPtr>(av_buffer_ref(&reference)));
  return {bytes, std::move(owner)};
}

Part part_of(Buffer memory, std::size_t size) {
  auto owner = std::make_shared<const Buffer>(std::move(memory));
  const std::span<const std::uint8_t> bytes(owner->data(), size);
  return {bytes, std::move(owner)};
}

av::BufferRefPtr reference_to(const Part& part, std::span<const std::uint8_t> bytes) {
  auto share = std::make_unique<std::shared_ptr<const void>>(part.owner);
  auto* data = const_cast<std::uint8_t*>(bytes.data());
  auto reference = av::own<av::BufferRefPtr>(
      av_buffer_create(data, bytes.size(), release_owner, share.get(), AV_BUFFER_FLAG_READONLY));
  static_cast<void>(share.release());
  return reference;
}

}  // namespace spdl
