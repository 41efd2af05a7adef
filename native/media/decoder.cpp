#include "media/decoder.h"

namespace spdl {}  // namespace spdl
