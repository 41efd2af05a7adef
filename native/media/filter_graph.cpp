#include "media/filter_graph.h"

namespace spdl {}  // namespace spdl
