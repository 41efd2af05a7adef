// Options of demuxing and decoding as Python hands them over: tuples of the fields of DemuxConfig and DecodeConfig.

#pragma once

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "media/decoder.h"
#include "media/input.h"

namespace spdl::bind {

using Options = std::map<std::string, std::string>;
using DemuxFields = std::tuple<std::optional<std::string>, Options, int, bool,
                               std::optional<std::vector<std::string>>, std::optional<double>>;
using DecodeFields = std::tuple<std::optional<std::string>, Options, bool>;

// As signatures of bindings spell them.
#define SPDL_DEMUX_FIELDS "tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None"
#define SPDL_DECODE_FIELDS "tuple[str | None, dict[str, str], bool] | None"

inline DemuxConfig demux_config_of(const std::optional<DemuxFields>& fields) {
  return fields ? std::make_from_tuple<DemuxConfig>(*fields) : DemuxConfig{};
}
inline DecodeConfig decode_config_of(const std::optional<DecodeFields>& fields) {
  return fields ? std::make_from_tuple<DecodeConfig>(*fields) : DecodeConfig{};
}

}  // namespace spdl::bind
