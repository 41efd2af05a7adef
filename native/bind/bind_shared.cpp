#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/buffer_view.h"
#include "bind/gil.h"
#include "bind/registration.h"
#include "shared/area.h"
#include "shared/process.h"
#include "shared/sender.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kAreaDoc = R"(Memory that this process shares with another: reference-counted blocks, and a few atomic words.

Args:
    num_bytes: The capacity for data. Only pages that are written take memory.
    num_blocks: The largest number of blocks.
    has_bell: Whether one side will wait for the other.

Raises:
    OSError: The system is out of memory or of file descriptors.)";

constexpr const char* kSenderDoc = R"(The sending side of an area, which allocates its blocks. One for each area.

Thread-safe. In a forked child it never has room.)";

constexpr const char* kViewDoc = R"(A writable buffer of bytes in shared memory.

It keeps the mapping, and holds a reference to its block, if it has one, until it and all objects made from it are
gone.)";

constexpr const char* kPutDoc = R"(Copy each buffer to a block of its own; a buffer that lies in a slot is not copied.

Args:
    buffers: The contiguous buffers, of any type and in C or Fortran order.

Returns:
    The block, the offset in the data and the size in bytes of each buffer.
    None, and nothing is copied, if there is no room.)";

struct View {
  std::shared_ptr<Area> area;
  std::optional<Lease> lease;
  std::uint8_t* data;
  std::size_t size;
};

int get_view(PyObject* self, Py_buffer* view, int flags) noexcept {
  const auto* shared = nb::inst_ptr<View>(self);
  return PyBuffer_FillInfo(view, self, shared->data, static_cast<Py_ssize_t>(shared->size), 0, flags);
}

PyType_Slot kViewSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_view)},
    {0, nullptr},
};
std::uint32_t checked_block(const Area& area, std::uint64_t block) {
  if (block >= area.num_blocks()) {
    throw nb::value_error("there is no such block");
  }
  return static_cast<std::uint32_t>(block);
}

std::atomic<std::uint64_t>& checked_word(const Area& area, std::uint32_t index) {
  if (index >= Area::kNumWords) {
    throw nb::index_error("there is no such word");
  }
  return area.word(index);
}

// The same area. Throws ValueError if only its control part is mapped, because pointers to the data would be invalid.
const Area& mapped(const Area& area) {
  if (!area.maps_data()) {
    throw nb::value_error("the data of this shared memory is not mapped here");
  }
  return area;
}

std::uint8_t* checked_data(const Area& area, std::size_t offset, std::size_t size) {
  if (offset > area.size() || size > area.size() - offset) {
    throw nb::value_error("the buffer does not lie within the shared memory");
  }
  return area.data() + offset;
}

// One item of `spans`. The number after the last block means no block.
Span checked_span(const Area& area, nb::handle item) {
  const auto [block, offset, size] = nb::cast<std::tuple<std::uint32_t, std::size_t, std::size_t>>(item);
  if (block > area.num_blocks() || (block == area.num_blocks() && size != 0)) {
    throw nb::value_error("there is no such block");
  }
  checked_data(area, offset, size);
  return {.block = block, .offset = offset, .size = size};
}

nb::object make_view(const std::shared_ptr<Area>& area, const Span& span) {
  View view{.area = area, .lease = std::nullopt, .data = area->data() + span.offset, .size = span.size};
  if (span.block < area->num_blocks()) {
    view.lease.emplace(area, span.block);
  }
  return nb::cast(std::move(view));
}

nb::tuple as_tuple(const Span& span) { return nb::make_tuple(span.block, span.offset, span.size); }

std::vector<Span> checked_spans(const Area& area, const nb::sequence& items) {
  std::vector<Span> spans;
  for (const nb::handle item : items) {
    spans.push_back(checked_span(area, item));
  }
  return spans;
}

nb::list get(const std::shared_ptr<Area>& area, const nb::sequence& items) {
  nb::list views;
  for (const Span& span : checked_spans(mapped(*area), items)) {
    views.append(make_view(area, span));
  }
  return views;
}

void drop(Area& area, const nb::sequence& items) {
  for (const Span& span : checked_spans(area, items)) {
    if (span.block < area.num_blocks()) {
      area.drop(span.block);
    }
  }
}

nb::object put(Sender& sender, const nb::sequence& buffers) {
  std::vector<BufferView> views;
  std::vector<Sender::Bytes> bytes;
  std::size_t num_bytes = 0;
  for (const nb::handle buffer : buffers) {
    const BufferView& last = views.emplace_back(buffer, PyBUF_ANY_CONTIGUOUS);
    bytes.emplace_back(last.data(), last.size());
    num_bytes += last.size();
  }
  std::vector<Span> spans(bytes.size());
  if (!without_gil_if(num_bytes >= kReleaseFrom, [&] { return sender.put(bytes, spans); })) {
    return nb::none();
  }
  nb::list result;
  for (const Span& span : spans) {
    result.append(as_tuple(span));
  }
  return result;
}

nb::object slot(Sender& sender, std::size_t num_bytes) {
  if (num_bytes == 0) {
    return make_view(sender.area(), {.block = sender.area()->num_blocks(), .offset = 0, .size = 0});
  }
  const std::optional<Span> span =
      without_gil_if(num_bytes >= kReleaseFrom, [&] { return sender.slot(num_bytes); });
  return span ? make_view(sender.area(), *span) : nb::none();
}

bool wait_for_bell(Area& area, double seconds) {
  if (area.bell().read_fd() < 0) {
    throw nb::value_error("the shared memory is closed");
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::min(seconds, 1e9));
  while (true) {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    const Doorbell::Outcome outcome = without_gil_if(true, [&] { return area.bell().wait(left.count()); });
    if (outcome == Doorbell::Outcome::kInterrupted) {
      if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
      }
    } else if (outcome != Doorbell::Outcome::kTimedOut || left.count() <= 0) {
      return outcome != Doorbell::Outcome::kTimedOut;
    }
  }
}

void reserve(Area& area, std::size_t offset, std::size_t num_bytes) {
  checked_data(area, offset, num_bytes);
  const int code =
      num_bytes == 0 ? 0 : without_gil_if(true, [&] {
        return area.file().reserve(area.data_offset() + offset, num_bytes);
      });
  if (code != 0) {
    throw std::system_error(code, std::generic_category(), "reserve shared memory");
  }
}

// Calls copy(place, position, size) for the part before the end of the data, and for the rest that wraps around to its
// beginning.
template <class Copy>
void copy_around(const Area& area, std::size_t offset, std::size_t size, Copy&& copy) {
  mapped(area);
  if (offset > area.size() || size > area.size()) {
    throw nb::value_error("the buffer does not lie within the shared memory");
  }
  const std::size_t first = std::min(size, area.size() - offset);
  without_gil_if(size >= kReleaseFrom, [&] {
    if (first > 0) {
      copy(area.data() + offset, 0, first);
    }
    if (first < size) {
      copy(area.data(), first, size - first);
    }
    return 0;
  });
}

void copy_in(Area& area, std::size_t offset, nb::handle buffer) {
  const BufferView source(buffer, PyBUF_ANY_CONTIGUOUS);
  copy_around(area, offset, source.size(), [&](std::uint8_t* place, std::size_t position, std::size_t size) {
    std::memcpy(place, source.data() + position, size);
  });
}

nb::object copy_out(const Area& area, std::size_t offset, std::size_t num_bytes) {
  if (num_bytes > area.size()) {
    throw nb::value_error("the buffer does not lie within the shared memory");
  }
  nb::object bytes = nb::steal(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(num_bytes)));
  if (!bytes.is_valid()) {
    throw nb::python_error();
  }
  char* to = PyByteArray_AsString(bytes.ptr());
  copy_around(area, offset, num_bytes, [&](const std::uint8_t* place, std::size_t position, std::size_t size) {
    std::memcpy(to + position, place, size);
  });
  return bytes;
}

void register_area(nb::module_& module) {
  nb::class_<Area>(module, "Area", kAreaDoc)
      .def(nb::init<std::size_t, std::uint32_t, bool>(), "num_bytes"_a, "num_blocks"_a, nb::kw_only(), "has_bell"_a)
      .def_static(
          "attach",
          [](int fd, std::optional<std::pair<int, int>> bell, bool maps_data) {
            const auto [read_fd, write_fd] = bell.value_or(std::pair(-1, -1));
            return std::make_shared<Area>(fd, read_fd, write_fd, maps_data);
          },
          "fd"_a, "bell"_a.none() = nb::none(), nb::kw_only(), "maps_data"_a = true,
          "Map the area of another process by its descriptors, which the area takes over. Without `maps_data` it can drop\n"
          "blocks but has no views: for a process without enough address space for the data.")
      .def_prop_ro("data_offset", &Area::data_offset, "Where the data begins in the file.")
      .def_prop_ro("num_bytes", &Area::size, "Room for data.")
      .def_prop_ro("num_blocks", &Area::num_blocks, "The largest number of blocks.")
      .def_prop_ro(
          "fd", [](const Area& area) { return area.file().fd(); }, "Descriptor of the file; -1 when closed.")
      .def_prop_ro(
          "bell",
          [](Area& area) -> std::optional<std::pair<int, int>> {
            if (area.bell().read_fd() < 0) {
              return std::nullopt;
            }
            return std::pair(area.bell().read_fd(), area.bell().write_fd());
          },
          "Descriptors to wait on the bell and to ring it, which may be the same; None without a bell.")
      .def_prop_ro("num_used_blocks", &Area::num_used, "Number of blocks that have references.")
      .def(
          "for_this_process",
          [](const std::shared_ptr<Area>& area) { return area->is_inherited() ? area->duplicate() : area; },
          "The area itself; in a forked child, where the area does not count references, a new mapping. OSError: out of file descriptors.")
      .def("close", &Area::close, "Close the descriptors. The memory stays until the last view of it is gone.")
      .def("get", &get, "spans"_a,
           nb::sig("def get(self, spans: collections.abc.Sequence[tuple[int, int, int]]) -> list[View]"),
           "A view for each span, which takes over its reference. ValueError for a span of another area.")
      .def("drop", &drop, "spans"_a,
           nb::sig("def drop(self, spans: collections.abc.Sequence[tuple[int, int, int]]) -> None"),
           "Drop the references of spans that will not be received.")
      .def(
          "view",
          [](const std::shared_ptr<Area>& area, std::size_t offset, std::size_t num_bytes) {
            return nb::cast(View{area, std::nullopt, checked_data(mapped(*area), offset, num_bytes), num_bytes});
          },
          "offset"_a, "num_bytes"_a, nb::sig("def view(self, offset: int, num_bytes: int) -> View"),
          "A part of the data. It holds no reference to a block.")
      .def("reserve", &reserve, "offset"_a, "num_bytes"_a,
           "Reserve memory for a part of the data, so that writing cannot fail. OSError if there is none.")
      .def("copy_in", &copy_in, "offset"_a, "buffer"_a,
           nb::sig("def copy_in(self, offset: int, buffer: typing_extensions.Buffer) -> None"),
           "Copy a buffer to the data, wrapping around at its end.")
      .def("copy_out", &copy_out, "offset"_a, "num_bytes"_a,
           nb::sig("def copy_out(self, offset: int, num_bytes: int) -> bytearray"),
           "Copy a part of the data, wrapping around at its end.")
      .def(
          "count_up",
          [](const Area& area, std::uint32_t block, std::uint32_t count) {
            area.add(checked_block(area, block), count);
          },
          "block"_a, "count"_a = 1, "Count more references to a block.")
      .def(
          "count_down", [](Area& area, std::uint32_t block) { area.drop(checked_block(area, block)); }, "block"_a,
          "Drop a reference. The last one frees the block, and rings the bell.")
      .def(
          "collect",
          [](const Area& area) {
            std::vector<std::uint32_t> blocks;
            area.collect([&](std::uint32_t block) { blocks.push_back(block); });
            return blocks;
          },
          "The blocks that were freed since the last call.")
      .def(
          "load", [](const Area& area, std::uint32_t word) { return checked_word(area, word).load(); }, "word"_a,
          "Value of a word.")
      .def(
          "store",
          [](const Area& area, std::uint32_t word, std::uint64_t value) { checked_word(area, word).store(value); },
          "word"_a, "value"_a, "Set a word.")
      .def(
          "add",
          [](const Area& area, std::uint32_t word, std::uint64_t value) {
            return checked_word(area, word).fetch_add(value) + value;
          },
          "word"_a, "value"_a, "Add to a word, and return the sum.")
      .def("announce_wait", &Area::announce_wait, "Announce that this side will wait. Check the shared state again after it.")
      .def("wait", &wait_for_bell, "seconds"_a,
           "Wait until the other side rings, or the area is closed; False after a timeout. ValueError if already closed.")
      .def("ring", &Area::ring, "Wake the other side, if it announced that it waits.");
}

}  // namespace

void register_shared(nb::module_& module) {
  watch_forks();
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::system_error& error) {
      const nb::object args = nb::make_tuple(error.code().value(), nb::str(error.what()));
      PyErr_SetObject(PyExc_OSError, args.ptr());
    }
  });
  nb::class_<View>(module, "View", nb::type_slots(kViewSlots), nb::is_weak_referenceable(), kViewDoc)
      .def("__len__", [](const View& view) { return view.size; });
  register_area(module);
  nb::class_<Sender>(module, "Sender", kSenderDoc)
      .def(
          "__init__",
          [](Sender* self, std::shared_ptr<Area> area) {
            mapped(*area);
            new (self) Sender(std::move(area));
          },
          "area"_a)
      .def("put", &put, "buffers"_a,
           nb::sig("def put(self, buffers: collections.abc.Sequence[typing_extensions.Buffer]) "
                   "-> list[tuple[int, int, int]] | None"),
           kPutDoc)
      .def(
          "take_back",
          [](Sender& sender, const nb::sequence& spans) { sender.take_back(checked_spans(*sender.area(), spans)); },
          "spans"_a, nb::sig("def take_back(self, spans: collections.abc.Sequence[tuple[int, int, int]]) -> None"),
          "Undo a put that was not sent.")
      .def("slot", &slot, "num_bytes"_a, nb::sig("def slot(self, num_bytes: int) -> View | None"),
           "A block to be filled in place, aligned to 64 bytes; None if there is no room.")
      .def("trim", &Sender::trim, nb::call_guard<GilReleased>(),
           "Return all free memory to the system.")
      .def("close", &Sender::close, "Close the descriptor. After that there is no room.")
      .def_prop_ro("num_bytes_used", &Sender::num_bytes_used, "Bytes in blocks that have references.")
      .def_prop_ro("num_bytes_reserved", &Sender::num_bytes_reserved, "Bytes of the system's memory for data.");
  module.def("exit_on_hangup", &exit_on_hangup, "fd"_a, "grace_seconds"_a,
             R"(End this process, with exit code 1, ``grace_seconds`` after the other end of ``fd`` was closed.

A native thread watches a duplicate of ``fd`` for as long as the process lives; it needs no GIL. Nothing is cleaned
up.)");
}

}  // namespace spdl::bind
