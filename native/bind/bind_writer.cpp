#include <nanobind/stl/optional.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "bind/buffer_view.h"
#include "bind/gil.h"
#include "bind/registration.h"
#include "shared/writer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kWriterDoc = R"(Writes to a socket on a thread of its own, which needs no GIL.

Puts in quick succession are gathered for 100 us and written together; a put after a pause, or one that is
urgent, is written at once.
Thread-safe. It does not keep the connection open for the other side after the socket is shut down.

Args:
    fd: The connected stream socket; a duplicate is used.
    max_bytes_pending: The number of unwritten bytes above which ``put`` waits; None means that it never waits.)";

constexpr const char* kPutDoc = R"(Write a copy of all pieces, in order and contiguously.

While more than ``max_bytes_pending`` bytes are unwritten, waits without the GIL until the other side reads, the writer
is closed, or the connection ends.

Args:
    pieces: The contiguous buffers.
    urgent: Whether to write at once, without gathering, because the receiver is waiting.

Raises:
    OSError: A write has failed; nothing more will be written.)";

void put(Writer& writer, const nb::sequence& objects, bool urgent) {
  std::vector<BufferView> views;
  std::vector<std::span<const std::byte>> pieces;
  std::size_t num_bytes = 0;
  for (const nb::handle each : objects) {
    const BufferView& piece = views.emplace_back(each, PyBUF_SIMPLE);
    pieces.emplace_back(reinterpret_cast<const std::byte*>(piece.data()), piece.size());
    num_bytes += piece.size();
  }
  int error = without_gil_if(num_bytes >= kReleaseFrom, [&] { return writer.put(pieces, urgent, false); });
  if (error == EAGAIN) {
    error = without_gil_if(true, [&] { return writer.put(pieces, urgent, true); });
  }
  if (error != 0) {
    // Creating it through the interpreter selects the right subclass, such as BrokenPipeError.
    const nb::object args = nb::make_tuple(error, nb::str("write to another process"));
    PyErr_SetObject(PyExc_OSError, args.ptr());
    throw nb::python_error();
  }
}

}  // namespace

void register_writer(nb::module_& module) {
  nb::class_<Writer>(module, "Writer", kWriterDoc)
      .def(
          "__init__",
          [](Writer* self, int fd, std::optional<std::size_t> max_bytes_pending) {
            new (self) Writer(fd, max_bytes_pending.value_or(Writer::kNoLimit));
          },
          "fd"_a, "max_bytes_pending"_a = nb::none())
      .def("put", &put, "pieces"_a, "urgent"_a = false,
           nb::sig("def put(self, pieces: collections.abc.Sequence[typing_extensions.Buffer], urgent: bool = False) "
                   "-> None"),
           kPutDoc)
      .def(
          "drain",
          [](Writer& writer, double timeout) { return writer.drain(std::chrono::duration<double>(timeout)); },
          "timeout"_a, nb::call_guard<GilReleased>(),
          "Wait at most ``timeout`` seconds until all bytes are written; False after a timeout.")
      .def("close", &Writer::close, "Stop writing. Does not wait. Idempotent.")
      .def_prop_ro("num_bytes_pending", &Writer::num_bytes_pending, "Bytes that are not written yet.");
}

}  // namespace spdl::bind
