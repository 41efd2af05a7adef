// The header of npy files.
//
// Source: NumPy Enhancement Proposal 1 and numpy.lib.format, versions 1 to 3. The header is a Python dict; what NumPy and
// others write of it is read here, with any spacing, order of keys and kind of quotes, and nothing is evaluated.
// Plain functions; throws Error(kArchive).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spdl {

struct NpyHeader {
  std::string descr;  // such as "<f8": the word for one dtype, neither structured nor of objects
  bool is_fortran_order = false;
  std::vector<std::uint64_t> shape;
  std::size_t offset = 0;  // of the data
};

NpyHeader read_npy_header(std::span<const std::uint8_t> file);

}  // namespace spdl
