// Compiled with -mavx2 -mbmi -mbmi2 -mlzcnt, so nothing here may be inlined elsewhere.

#include "media/flac_subframes.h"

#include "media/flac_subframes.inc"

namespace spdl {

const FlacKernels kFlacKernelsAvx2 = make_kernels();

}  // namespace spdl
