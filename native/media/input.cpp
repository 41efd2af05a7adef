#include "media/input.h"

namespace spdl {}  // namespace spdl
