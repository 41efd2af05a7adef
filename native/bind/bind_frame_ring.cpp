#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "bind/buffer_view.h"
#include "bind/gil.h"
#include "bind/registration.h"
#include "shared/frame_ring.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kRingDoc = R"(A ring in shared memory for small messages to another process.

One side puts, the other side takes; neither waits. Thread-safe. In a forked child it has no room and no messages.

Args:
    capacity: The size in bytes: a power of two, at least one page. Only pages that were used take memory.

Raises:
    OSError: The system is out of memory or of file descriptors.)";

constexpr const char* kPutDoc = R"(Append one message, made of all pieces.

Returns:
    0: not put, because there is no room or no reader. 1: put. 2: put, and the caller must wake the reader.)";

std::span<const std::byte> bytes_of(nb::handle object) {
  return {reinterpret_cast<const std::byte*>(PyBytes_AsString(object.ptr())),
          static_cast<std::size_t>(PyBytes_Size(object.ptr()))};
}

int put(FrameRing& ring, const nb::sequence& objects) {
  if (PyTuple_CheckExact(objects.ptr()) && PyTuple_Size(objects.ptr()) == 2) {  // a header and a small item
    const nb::handle header(PyTuple_GetItem(objects.ptr(), 0));
    const nb::handle item(PyTuple_GetItem(objects.ptr(), 1));
    if (PyBytes_CheckExact(header.ptr()) && PyBytes_CheckExact(item.ptr())) {
      return static_cast<int>(ring.put(std::array{bytes_of(header), bytes_of(item)}));
    }
  }
  std::vector<BufferView> views;
  std::vector<std::span<const std::byte>> pieces;
  for (const nb::handle each : objects) {
    const BufferView& piece = views.emplace_back(each, PyBUF_SIMPLE);
    pieces.emplace_back(reinterpret_cast<const std::byte*>(piece.data()), piece.size());
  }
  return static_cast<int>(ring.put(pieces));
}

nb::bytes take(FrameRing& ring, std::size_t enough) {
  thread_local std::vector<std::byte> data;  // its memory is kept: at most `enough` and a message
  data.clear();
  ring.take(data, enough);
  return nb::bytes(data.data(), data.size());
}

}  // namespace

void register_frame_ring(nb::module_& module) {
  nb::class_<FrameRing>(module, "FrameRing", kRingDoc)
      .def(nb::init<std::size_t>(), "capacity"_a)
      .def_static("attach", &FrameRing::attach, "fd"_a, nb::rv_policy::take_ownership,
                  "Map the ring of another process by its descriptor, which the ring takes over. OSError if it cannot.")
      .def_prop_ro("fd", &FrameRing::fd, "Descriptor of the file; -1 when closed.")
      .def("close_file", &FrameRing::close_file, "Close the descriptor. The mapping stays.")
      .def_prop_ro("max_size", &FrameRing::max_size, "Bytes in the largest message.")
      .def("put", &put, "pieces"_a,
           nb::sig("def put(self, pieces: collections.abc.Sequence[typing_extensions.Buffer]) -> int"), kPutDoc)
      .def("count_other", &FrameRing::count_other, "count"_a,
           "Count messages that were sent or received another way; they come before all later puts.")
      .def("open_reader", &FrameRing::open_reader, "Start accepting messages. Until then, puts are refused.")
      .def("close_reader", &FrameRing::close_reader, "Stop accepting messages. Idempotent.")
      .def("take", &take, "enough"_a,
           "The available messages, joined: whole and in order, until they have at least ``enough`` bytes. OSError if "
           "the ring is damaged.")
      .def("has_message_or_announce", &FrameRing::has_message_or_announce,
           "Whether a message can be taken. If not, the next ``put`` returns 2: the reader waits.")
      .def("spin", &FrameRing::spin, nb::call_guard<GilReleased>(),
           "Wait some microseconds for a message, unless recent waits were in vain. True if there is one.");
}

}  // namespace spdl::bind
