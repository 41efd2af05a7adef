#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "archive/tar.h"
#include "base/error.h"
#include "base/sniff.h"
#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/named.h"
#include "bind/registration.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kMembersDoc = R"(Iterates over the regular files of a tar archive in memory: name, view of the data.

Headers are read ahead, a growing number at a time; without the GIL if they are many. Releasing it for a few
would cost threads that iterate in parallel more than the reading itself.)";

constexpr const char* kStreamDoc = R"(Iterates over the regular files of a tar archive that is read from a stream: name, data.

Never reads beyond the end of the member that it returned last; after the last one, it reads the zeros that follow.)";

// Members read ahead at first and at most; the number doubles in between. Reading a header takes about 50 ns, and
// making the Python objects about 300 ns. Handing over the GIL takes 5 to 50 us, so it is released for batches that
// take much longer than that, and kept for those that take a few microseconds.
constexpr std::size_t kFirstBatch = 16;
constexpr std::size_t kLargestBatch = 1024;
constexpr std::size_t kBatchWithoutGil = 256;

// The largest single read from a stream, so that a damaged size cannot cause a huge allocation.
constexpr std::uint64_t kLargestRead = std::uint64_t{1} << 30;
// Skipped data is read in parts of this size.
constexpr std::uint64_t kSkipRead = std::uint64_t{1} << 20;

// Names are bytes; those that are not UTF-8 become text that os.fsencode turns back into the same bytes.
nb::object text_of(const std::string& name) {
  PyObject* text = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogateescape");
  if (text == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(text);
}

// Warns if the end of the archive was unusual. Throws if the user has made warnings errors.
void warn_of(const TarEnd& end, const std::string& source) {
  const std::string text = describe_tar_end(end);
  if (text.empty()) {
    return;
  }
  if (PyErr_WarnEx(PyExc_UserWarning, (source + " " + text).c_str(), 1) != 0) {
    throw nb::python_error();
  }
}

nb::object pair_of(const std::string& name, const nb::object& data) {
  const nb::object text = text_of(name);
  return nb::steal(PyTuple_Pack(2, text.ptr(), data.ptr()));
}

class TarMembers {
 public:
  TarMembers(const nb::object& data, bool ignores_zeros)
      : held_(std::in_place, data, false, "src"),
        view_(bytes_view(data, *held_)),
        reader_({held_->data(), held_->size()}, ignores_zeros) {}

  // Null at the end.
  nb::object next() {
    if (at_ == count_ && !is_over_) {
      read_ahead();
    }
    if (at_ == count_) {
      if (failure_) {
        std::rethrow_exception(std::exchange(failure_, nullptr));
      }
      if (held_) {
        const std::string source = name_of_bytes(held_->data());
        warn_of(std::exchange(end_, {}), source);
      }
      return {};
    }
    const TarMember& member = batch_[at_++];
    return pair_of(member.name, slice(member));
  }

  template <class Visit>
  int visit(Visit visit) const noexcept {
    return held_ ? visit(view_.ptr(), held_->exporter()) : 0;
  }
  void clear() noexcept {
    is_over_ = true;
    at_ = count_ = 0;
    view_.reset();
    held_.reset();
  }

 private:
  // As elements of one byte, whatever the buffer's element type is.
  static nb::object bytes_view(const nb::object& data, const Export& held) {
    nb::object view = nb::steal(PyMemoryView_FromObject(data.ptr()));
    if (!view.is_valid()) {
      throw nb::python_error();
    }
    if (held.size() == 0 || (held.is_byte_string() && view.attr("format").equal(nb::str("B")))) {
      return view;
    }
    const nb::object bytes = nb::steal(PyObject_CallMethod(view.ptr(), "cast", "s", "B"));
    if (!bytes.is_valid()) {
      nb::python_error cause;
      throw nb::type_error("src must be a buffer of bytes or of numbers");
    }
    return bytes;
  }

  // An error in a header is raised after the members before it were returned.
  void read_ahead() {
    batch_.resize(std::clamp(batch_.size() * 2, kFirstBatch, kLargestBatch));
    at_ = count_ = 0;
    std::optional<GilReleased> released;
    if (batch_.size() >= kBatchWithoutGil) {
      released.emplace();
    }
    try {
      while (count_ < batch_.size() && reader_.next(batch_[count_])) {
        ++count_;
      }
      is_over_ = count_ < batch_.size();
      if (is_over_) {
        end_ = reader_.end();
      }
    } catch (Error& error) {
      error.source = name_of_bytes(held_->data());
      failure_ = std::current_exception();
      is_over_ = true;
    }
  }

  nb::object slice(const TarMember& member) const {
    const nb::object start = nb::steal(PyLong_FromSize_t(member.offset));
    const nb::object stop = nb::steal(PyLong_FromSize_t(member.offset + member.size));
    const nb::object range = nb::steal(PySlice_New(start.ptr(), stop.ptr(), nullptr));
    nb::object part = nb::steal(PyObject_GetItem(view_.ptr(), range.ptr()));
    if (!part.is_valid()) {
      throw nb::python_error();
    }
    return part;
  }

  std::optional<Export> held_;
  nb::object view_;
  TarReader reader_;
  std::vector<TarMember> batch_;  // reuses the memory of the names
  std::size_t at_ = 0;
  std::size_t count_ = 0;
  bool is_over_ = false;  // nothing is left to read
  TarEnd end_;            // not yet warned of
  std::exception_ptr failure_;
};

class TarStream {
 public:
  TarStream(const nb::object& stream, bool ignores_zeros)
      : read_(stream.attr("read")), source_(name_of(stream)), ignores_zeros_(ignores_zeros) {}

  // Null at the end.
  nb::object next() {
    if (is_over_) {
      return {};
    }
    is_over_ = true;  // in case anything below throws
    try {
      nb::object pair = advance();
      is_over_ = !pair.is_valid();
      return pair;
    } catch (Error& error) {
      error.source = source_;
      throw;
    }
  }

  template <class Visit>
  int visit(Visit visit) const noexcept {
    return visit(read_.ptr(), nullptr);
  }
  void clear() noexcept { read_.reset(); }

 private:
  nb::object advance() {
    for (nb::object piece = fetch_header();; piece = fetch_header()) {
      if (span_of(piece).empty()) {
        if (position_ != 0) {
          warn_of({.without_zeros = position_, .ignored = {}}, source_);
        }
        return {};
      }
      TarParser::Step step = parser_.read_header(block_of(piece), position_);
      if (step.kind == TarParser::DataKind::kEnd) {
        piece = pass_zeros();
        if (!piece.is_valid()) {
          return {};
        }
        parser_.begin_archive();
        step = parser_.read_header(block_of(piece), position_);
      }
      position_ += kTarBlock + step.size;
      padding_ = tar_padding(step.size);
      switch (step.kind) {
        case TarParser::DataKind::kEnd:  // there were no zeros
          break;
        case TarParser::DataKind::kMember:
          return pair_of(parser_.name(), fetch_all(step.size));
        case TarParser::DataKind::kExtension:
          parser_.read_extension(span_of(fetch_all(step.size)));
          break;
        case TarParser::DataKind::kIgnored:
          for (std::uint64_t left = step.size; left > 0;) {
            const std::uint64_t part = std::min(left, kSkipRead);
            fetch(part, false);
            left -= part;
          }
          break;
      }
    }
  }

  // The next header, in a piece that ends with it; empty if the data ends where it would begin.
  nb::object fetch_header() {
    const auto behind = static_cast<std::size_t>(std::exchange(padding_, 0));
    const bool may_be_empty = !parser_.expects_member();
    nb::object piece = read_bytes(behind + kTarBlock);
    if (span_of(piece).size() == behind && may_be_empty) {
      position_ += behind;
      // Either the data has ended, or this was a short read.
      return behind == 0 ? piece : fetch(kTarBlock, true);
    }
    check_size(piece, behind + kTarBlock);
    position_ += behind;
    return piece;
  }

  // Behind the first block of zeros: the first header of another archive; invalid if there is none to read.
  nb::object pass_zeros() {
    for (position_ += kTarBlock;; position_ += kTarBlock) {
      if (PyErr_CheckSignals() != 0) {  // the stream may be endless
        throw nb::python_error();
      }
      nb::object piece = read_bytes(kTarBlock);
      if (span_of(piece).size() < kTarBlock) {  // what follows is no archive
        return {};
      }
      check_size(piece, kTarBlock);
      if (is_tar_zeros(block_of(piece))) {
        continue;
      }
      if (ignores_zeros_) {
        return piece;
      }
      if (is_tar_header(block_of(piece))) {
        warn_of({.without_zeros = {}, .ignored = position_}, source_);
      }
      return {};
    }
  }

  nb::object fetch_all(std::uint64_t size) {
    if (size <= kLargestRead) {
      return size == 0 ? nb::object(nb::bytes("", 0)) : fetch(size, false);
    }
    nb::list parts;
    for (std::uint64_t left = size; left > 0;) {
      const std::uint64_t part = std::min(left, kLargestRead);
      parts.append(fetch(part, false));
      left -= part;
    }
    return nb::bytes("", 0).attr("join")(parts);
  }

  // Exactly `size` bytes, or none if `may_be_empty`.
  nb::object fetch(std::uint64_t size, bool may_be_empty) {
    nb::object piece = read_bytes(size);
    if (!may_be_empty || !span_of(piece).empty()) {
      check_size(piece, size);
    }
    return piece;
  }

  nb::object read_bytes(std::uint64_t size) {
    nb::object piece = read_(size);
    if (!nb::isinstance<nb::bytes>(piece)) {
      const nb::object copied = nb::steal(PyBytes_FromObject(piece.ptr()));
      if (!copied.is_valid()) {
        nb::python_error cause;
        const nb::object type = piece.type().attr("__name__");
        throw nb::type_error(("read() of " + source_ + " must return bytes, got " +
                              std::string(nb::borrow<nb::str>(type).c_str()))
                                 .c_str());
      }
      piece = copied;
    }
    return piece;
  }

  void check_size(const nb::object& piece, std::uint64_t size) const {
    const std::span<const std::uint8_t> bytes = span_of(piece);
    if (bytes.size() == size) {
      return;
    }
    const std::string numbers = std::to_string(bytes.size()) + " bytes where " + std::to_string(size) +
                                " were asked for, at byte " + std::to_string(position_);
    if (bytes.size() > size) {
      throw Error(ErrorKind::kArchive, "read the tar archive", "its read() gave " + numbers);
    }
    throw tar_ends_early("The stream gave " + numbers + "; if it has more, wrap it in io.BufferedReader" +
                         (position_ == 0 ? describe_beginning(bytes) : ""));
  }

  static std::span<const std::uint8_t, kTarBlock> block_of(const nb::object& piece) noexcept {
    return span_of(piece).last<kTarBlock>();
  }

  static std::span<const std::uint8_t> span_of(const nb::object& bytes) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(PyBytes_AsString(bytes.ptr())),
            static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
  }

  static std::string name_of(const nb::object& stream) {
    const nb::object name = nb::getattr(stream, "name", nb::none());
    const nb::object shown = nb::isinstance<nb::str>(name) ? name : stream.type().attr("__name__");
    const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(shown.ptr(), "utf-8", "backslashreplace"));
    if (!bytes.is_valid()) {
      throw nb::python_error();
    }
    return PyBytes_AsString(bytes.ptr());
  }

  nb::object read_;
  std::string source_;
  bool ignores_zeros_;
  TarParser parser_;
  std::uint64_t position_ = 0;
  std::uint64_t padding_ = 0;
  bool is_over_ = false;
};

// For Python: an iterator that one thread at a time may use.
template <class T>
class Iterator {
 public:
  Iterator(const nb::object& source, bool ignores_zeros) : items_(source, ignores_zeros) {}

  nb::object next() {
    const Turn turn(is_in_use_);
    nb::object item = items_.next();
    if (!item.is_valid()) {
      throw nb::stop_iteration();
    }
    return item;
  }

  // For the garbage collector. It visits nothing that `next` changes without the GIL.
  T& items() noexcept { return items_; }

 private:
  class Turn {
   public:
    explicit Turn(std::atomic_flag& is_in_use) : is_in_use_(is_in_use) {
      if (is_in_use.test_and_set(std::memory_order_acquire)) {
        throw Error(ErrorKind::kMedia, "get the next item of the iterator", "it is in use by another thread, or by the stream that it reads");
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { is_in_use_.clear(std::memory_order_release); }

   private:
    std::atomic_flag& is_in_use_;
  };

  T items_;
  std::atomic_flag is_in_use_;
};

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    return nb::inst_ptr<Iterator<T>>(self)->items().visit([&](PyObject* first, PyObject* second) {
      Py_VISIT(first);
      Py_VISIT(second);
      return 0;
    });
  }
  return 0;
}

template <class T>
int clear(PyObject* self) noexcept {
  nb::inst_ptr<Iterator<T>>(self)->items().clear();
  return 0;
}

template <class T>
void register_iterator(nb::module_& module, const char* name, const char* doc, const char* init, const char* next) {
  static PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(traverse<T>)},
      {Py_tp_clear, reinterpret_cast<void*>(clear<T>)},
      {0, nullptr},
  };
  nb::class_<Iterator<T>>(module, name, nb::type_slots(slots), nb::is_weak_referenceable(), doc)
      .def(nb::init<const nb::object&, bool>(), "src"_a, "ignore_zeros"_a = false, nb::sig(init))
      .def("__iter__", [](nb::handle self) { return self; }, nb::sig("def __iter__(self) -> typing.Self"))
      .def("__next__", &Iterator<T>::next, nb::sig(next));
}

}  // namespace

void register_tar(nb::module_& module) {
  register_iterator<TarMembers>(
      module, "TarMembers", kMembersDoc,
      "def __init__(self, src: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any], ignore_zeros: bool = False) -> None",
      "def __next__(self) -> tuple[str, memoryview]");
  register_iterator<TarStream>(module, "TarStream", kStreamDoc, "def __init__(self, src: typing.Any, ignore_zeros: bool = False) -> None",
                               "def __next__(self) -> tuple[str, bytes]");
}

}  // namespace spdl::bind
