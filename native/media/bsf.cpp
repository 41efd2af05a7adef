#include "media/bsf.h"

namespace spdl {}  // namespace spdl
