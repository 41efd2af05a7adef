#include "image/kernels.h"

namespace spdl {

const Kernels& best_kernels() noexcept {
#if defined(SPDL_X86_KERNELS)
  for (const char* name : {"avx512", "avx2"}) {
    if (const Kernels* kernels = find_kernels(name)) {
      return *kernels;
    }
  }
#endif
#if defined(SPDL_NEON_KERNELS)
  return kNeonKernels;
#else
  return kPortableKernels;
#endif
}

const Kernels* find_kernels(std::string_view name) noexcept {
#if defined(SPDL_X86_KERNELS)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  if (name == kAvx512Kernels.name) {
    const bool supported = has_avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
    return supported ? &kAvx512Kernels : nullptr;
  }
  if (name == kAvx2Kernels.name) {
    return has_avx2 ? &kAvx2Kernels : nullptr;
  }
#endif
#if defined(SPDL_NEON_KERNELS)
  if (name == kNeonKernels.name) {
    return &kNeonKernels;
  }
#endif
  return name == kPortableKernels.name ? &kPortableKernels : nullptr;
}

}  // namespace spdl
