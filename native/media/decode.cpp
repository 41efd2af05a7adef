#include "media/decode.h"

namespace spdl {}  // namespace spdl
