#include "bind/bind_writer.h"

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "shared/writer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kWriterDoc = R"(Writes to a socket on a thread of its own, which needs no GIL.

What comes fast is gathered for 100 us and leaves in one write; what comes after a pause, or is
urgent, leaves at once.
Safe to use from several threads. It does not keep the socket open for the other side once that is shut down.

Args:
    fd: A connected stream socket; a duplicate is used.)";

constexpr const char* kPutDoc = R"(Have a copy of all pieces written, in order and in one piece. Does not wait.

Args:
    pieces: Contiguous buffers.
    urgent: Somebody waits for this: do not gather.

Raises:
    OSError: A write has failed; nothing is written any more.)";

// Copies of this size take longer than letting go of the GIL.
constexpr std::size_t kReleaseFrom = std::size_t{1} << 16;

class Pieces {
 public:
  explicit Pieces(const nb::sequence& objects) {
    views_.reserve(nb::len(objects));
    spans_.reserve(nb::len(objects));
    for (const nb::handle each : objects) {
      Py_buffer& view = views_.emplace_back();
      if (PyObject_GetBuffer(each.ptr(), &view, PyBUF_SIMPLE) != 0) {
        views_.pop_back();
        release();
        throw nb::python_error();
      }
      spans_.emplace_back(static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len));
      num_bytes_ += spans_.back().size();
    }
  }
  ~Pieces() { release(); }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::span<const std::span<const std::byte>> spans() const noexcept { return spans_; }
  std::size_t num_bytes() const noexcept { return num_bytes_; }

 private:
  void release() noexcept {
    for (Py_buffer& view : views_) {
      PyBuffer_Release(&view);
    }
    views_.clear();
  }

  std::vector<Py_buffer> views_;
  std::vector<std::span<const std::byte>> spans_;
  std::size_t num_bytes_ = 0;
};

void put(Writer& writer, const nb::sequence& objects, bool urgent) {
  const Pieces pieces(objects);
  int error = 0;
  if (pieces.num_bytes() >= kReleaseFrom) {
    const nb::gil_scoped_release released;
    error = writer.put(pieces.spans(), urgent);
  } else {
    error = writer.put(pieces.spans(), urgent);
  }
  if (error != 0) {
    // The interpreter's own way makes the subclass that fits, BrokenPipeError for one.
    const nb::object args = nb::make_tuple(error, nb::str("write to another process"));
    PyErr_SetObject(PyExc_OSError, args.ptr());
    throw nb::python_error();
  }
}

}  // namespace

void register_writer(nb::module_& module) {
  nb::class_<Writer>(module, "Writer", kWriterDoc)
      .def(nb::init<int>(), "fd"_a)
      .def("put", &put, "pieces"_a, "urgent"_a = false,
           nb::sig("def put(self, pieces: collections.abc.Sequence[typing_extensions.Buffer], urgent: bool = False) "
                   "-> None"),
           kPutDoc)
      .def(
          "drain",
          [](Writer& writer, double timeout) { return writer.drain(std::chrono::duration<double>(timeout)); },
          "timeout"_a, nb::call_guard<nb::gil_scoped_release>(),
          "Wait, at most ``timeout`` seconds, until all is written; False if it is not.")
      .def("close", &Writer::close, "Write nothing more. Does not wait. Idempotent.")
      .def_prop_ro("num_bytes_pending", &Writer::num_bytes_pending, "Bytes that are not written yet.");
}

}  // namespace spdl::bind
