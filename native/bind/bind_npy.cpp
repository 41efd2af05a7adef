#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/inflate.h"
#include "archive/npy.h"
#include "archive/zip.h"
#include "base/error.h"
#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/named.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kNpyDoc = R"(Read the header of an npy file in memory.

Returns:
    The dtype as NumPy's type string (neither structured nor of objects), whether the array is in Fortran order, the
    shape, and the offset of the data. The caller has to check that the data is complete.

Raises:
    ArchiveError: The data is of another format, or damaged.

Reads the header only, and holds the GIL.)";

constexpr const char* kZipDoc = R"(Read the directory of a zip archive in memory.

Returns:
    For each entry: name, offset of the data, compressed size, uncompressed size, method, CRC-32, whether it is
    encrypted. The data lies inside the archive, and no two entries overlap.

Raises:
    ArchiveError: The data is of another format, or damaged.

Releases the GIL.)";

constexpr const char* kInflateDoc = R"(Inflate raw deflate data into memory of exactly the expected size.

Returns:
    Whether the data gave exactly that many bytes. If not, use zlib, which reports the reason; always ``False`` if this
    build has no libdeflate.

Releases the GIL.)";

constexpr const char* kCrc32Doc = R"(CRC-32 of a buffer, as in zip archives; ``None`` if this build has no libdeflate.

Releases the GIL if it takes long.)";

// Below this size, handing over the GIL takes longer than the checksum: 64 kB take 5 us.
constexpr std::size_t kLongToCheck = 65536;

nb::tuple read_npy(const nb::object& data) {
  const Export held(data, false, "data");
  NpyHeader header;
  try {
    header = read_npy_header({held.data(), held.size()});
  } catch (Error& error) {
    error.source = name_of_bytes(held.data());
    throw;
  }
  const nb::object shape = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(header.shape.size())));
  for (std::size_t i = 0; i < header.shape.size(); ++i) {
    PyTuple_SetItem(shape.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLongLong(header.shape[i]));
  }
  return nb::make_tuple(header.descr, header.is_fortran_order, shape, header.offset);
}

nb::str text_of(const ZipEntry& entry) {
  const auto size = static_cast<Py_ssize_t>(entry.name.size());
  PyObject* text = entry.is_utf8 ? PyUnicode_DecodeUTF8(entry.name.data(), size, "surrogateescape")
                                 : PyUnicode_Decode(entry.name.data(), size, "cp437", "strict");
  if (text == nullptr) {
    throw nb::python_error();
  }
  return nb::steal<nb::str>(text);
}

nb::list read_zip(const nb::object& data) {
  const Export held(data, false, "data");
  std::vector<ZipEntry> entries;
  try {
    const GilReleased released;
    entries = read_zip_directory({held.data(), held.size()});
  } catch (Error& error) {
    error.source = name_of_bytes(held.data());
    throw;
  }
  nb::list result;
  for (const ZipEntry& entry : entries) {
    result.append(nb::make_tuple(text_of(entry), entry.offset, entry.compressed_size, entry.uncompressed_size,
                                 entry.method, entry.crc32, entry.is_encrypted));
  }
  return result;
}

bool inflate_into(const nb::object& data, const nb::object& memory) {
  const Export from(data, false, "data");
  const Export into(memory, true, "memory");
  const GilReleased released;
  return inflate({from.data(), from.size()}, {into.data(), into.size()});
}

std::optional<std::uint32_t> checksum(const nb::object& data) {
  const Export held(data, false, "data");
  std::optional<GilReleased> released;
  if (held.size() > kLongToCheck) {
    released.emplace();
  }
  return crc32({held.data(), held.size()});
}

nb::object version_of_libdeflate() {
  const std::string_view version = libdeflate_version();
  return version.empty() ? nb::none() : nb::object(nb::str(version.data(), version.size()));
}

}  // namespace

void register_npy(nb::module_& module) {
  module.def("read_npy_header", &read_npy, "data"_a.none(),
             nb::sig("def read_npy_header(data: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any]) "
                     "-> tuple[str, bool, tuple[int, ...], int]"),
             kNpyDoc);
  module.def("read_zip_directory", &read_zip, "data"_a.none(),
             nb::sig("def read_zip_directory(data: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any]) "
                     "-> list[tuple[str, int, int, int, int, int, bool]]"),
             kZipDoc);
  module.def("inflate", &inflate_into, "data"_a.none(), "memory"_a.none(),
             nb::sig("def inflate(data: typing_extensions.Buffer, memory: typing_extensions.Buffer) -> bool"),
             kInflateDoc);
  module.def("crc32", &checksum, "data"_a.none(),
             nb::sig("def crc32(data: typing_extensions.Buffer) -> int | None"), kCrc32Doc);
  module.def("libdeflate_version", &version_of_libdeflate, nb::sig("def libdeflate_version() -> str | None"),
             "Version of the libdeflate headers of this build; ``None`` if it has none.");
  module.def("libdeflate_path", &libdeflate_path, "File that libdeflate was loaded from.");
}

}  // namespace spdl::bind
