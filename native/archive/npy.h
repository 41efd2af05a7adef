// The header of npy files.
//
// Source: NumPy Enhancement Proposal 1 and numpy.lib.format, versions 1 to 3. The header is a Python dict. This reads
// headers written by NumPy and others, with any spacing, key order and kind of quotes, and evaluates nothing. Plain
// functions; throws Error(kArchive).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spdl {

struct NpyHeader {
  std::string descr;  // such as "<f8": one dtype, neither structured nor of objects
  bool is_fortran_order = false;
  std::vector<std::uint64_t> shape;
  std::size_t offset = 0;  // of the data
};

NpyHeader read_npy_header(std::span<const std::uint8_t> file);

}  // namespace spdl
