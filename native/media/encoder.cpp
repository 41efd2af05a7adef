#include "media/encoder.h"

namespace spdl {}  // namespace spdl
