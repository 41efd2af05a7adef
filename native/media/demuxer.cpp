#include "media/demuxer.h"

namespace spdl {}  // namespace spdl
