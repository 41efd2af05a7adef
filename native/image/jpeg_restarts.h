// Restart intervals in the entropy-coded data of a JPEG (ITU-T T.81, B.2.1 and E.1.4): places where a decoder can start.
//
// Pure functions; thread-safe.

#pragma once

#include <cstddef>
#include <optional>

#include "image/bytes.h"

namespace spdl {

// Where in a scan's data interval `index` begins. Reads the data up to interval `last`, which must be at or behind `index`.
// Empty unless every marker up to there is a restart marker with its number, as in files that libjpeg takes without a
// warning. Damage between the markers goes unnoticed.
std::optional<std::size_t> find_restart_interval(Bytes scan, std::size_t index, std::size_t last) noexcept;

// The last row of units at or above `row` that begins an interval. `row_size` and `interval_size` are in units, and not 0.
std::size_t restart_row(std::size_t row, std::size_t row_size, std::size_t interval_size) noexcept;

}  // namespace spdl
