#include "image/kernels.h"

namespace spdl {

const Kernels& best_kernels() noexcept {
#if defined(SPDL_X86_KERNELS)
  if (const Kernels* avx2 = find_kernels("avx2")) {
    return *avx2;
  }
#endif
  return kPortableKernels;
}

const Kernels* find_kernels(std::string_view name) noexcept {
#if defined(SPDL_X86_KERNELS)
  if (name == kAvx2Kernels.name) {
    return __builtin_cpu_supports("avx2") ? &kAvx2Kernels : nullptr;
  }
#endif
  return name == kPortableKernels.name ? &kPortableKernels : nullptr;
}

}  // namespace spdl
