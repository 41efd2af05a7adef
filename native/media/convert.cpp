#include "media/convert.h"

namespace spdl {}  // namespace spdl
