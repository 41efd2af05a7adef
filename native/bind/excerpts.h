// Shared by the calls that load many sources with FFmpeg: clips, sounds, and pictures through filters.

#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/crew.h"
#include "base/error.h"
#include "bind/batch_call.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/interrupt.h"

namespace spdl::bind {

using ItemErrors = std::vector<std::optional<Error>>;

// Processes each item without the GIL; the caller holds it. `size_of` is as in Crew. Raises the exception of a signal
// handler.
inline ItemErrors work_without_gil(std::size_t count, int num_threads, const std::function<bool(std::size_t)>& work,
                                   const std::function<std::uint64_t(std::size_t)>& size_of = {}) {
  SignalCheck is_interrupted;
  std::optional<ItemErrors> errors;
  {
    const GilReleased released;
    errors = work_off(
        count, {.num_threads = num_threads, .is_cancelled = std::ref(is_interrupted), .size_of = size_of, .announce = {}},
        work);
  }
  is_interrupted.throw_if_raised();
  if (!errors) {
    throw Cancelled();  // by a handler that ran while Python read a source
  }
  return *std::move(errors);
}

// The failures; and for each source its start in seconds and how much of it is not padding, or None.
inline nanobind::tuple outcome_of(const ItemErrors& errors, const std::vector<std::string>& names,
                                  const nanobind::list& labels, std::size_t first_index,
                                  const std::vector<std::pair<double, std::int64_t>>& parts) {
  nanobind::list failures;
  nanobind::list excerpts;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (const auto& error = errors[i]) {
      failures.append(make_load_failure(first_index + i, labels[i], make_exception(*error, names[i])));
      excerpts.append(nanobind::none());
    } else {
      excerpts.append(nanobind::make_tuple(parts[i].first, parts[i].second));
    }
  }
  return nanobind::make_tuple(nanobind::tuple(failures), excerpts);
}

}  // namespace spdl::bind
