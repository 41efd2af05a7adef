#include "media/flac_subframes.h"

#include "media/flac_subframes.inc"

namespace spdl {

const FlacKernels kFlacKernels = make_kernels();

}  // namespace spdl
