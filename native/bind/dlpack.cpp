#include "bind/dlpack.h"

#include <cstdint>

namespace nb = nanobind;

namespace spdl::bind {
namespace {

// Source of the structures, the names of capsules and the code: dlpack.h of DLPack 1.0, whose layouts are fixed.
struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t num_dimensions;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct VersionedTensor {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr std::uint8_t kBfloatCode = 4;

}  // namespace

void relabel_as_bfloat16(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0) {
    static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName))->tensor.type_code = kBfloatCode;
    return;
  }
  auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  if (managed == nullptr) {
    throw nb::python_error();
  }
  managed->tensor.type_code = kBfloatCode;
}

}  // namespace spdl::bind
