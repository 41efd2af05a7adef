#include "bind/errors.h"

#include <exception>
#include <new>

#include "bind/interrupt.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

const char* class_name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kMedia:
      return "MediaError";
    case ErrorKind::kSourceNotFound:
      return "SourceNotFoundError";
    case ErrorKind::kOpen:
      return "OpenError";
    case ErrorKind::kTimeout:
      return "SourceTimeoutError";
    case ErrorKind::kStreamNotFound:
      return "StreamNotFoundError";
    case ErrorKind::kDemux:
      return "DemuxError";
    case ErrorKind::kDecode:
      return "DecodeError";
    case ErrorKind::kImageTooLarge:
      return "ImageTooLargeError";
    case ErrorKind::kFilter:
      return "FilterError";
    case ErrorKind::kUnknownNode:
      return "UnknownNodeError";
    case ErrorKind::kConvert:
      return "ConvertError";
    case ErrorKind::kUnsupportedFormat:
      return "UnsupportedFormatError";
    case ErrorKind::kEncode:
      return "EncodeError";
    case ErrorKind::kMux:
      return "MuxError";
    case ErrorKind::kNoCodec:
      return "NoCodecError";
    case ErrorKind::kConsumed:
      return "ConsumedError";
    case ErrorKind::kClosed:
      return "ClosedError";
    case ErrorKind::kArchive:
      return "ArchiveError";
    case ErrorKind::kWav:
      return "WAVError";
    case ErrorKind::kNativeLibrary:
      return "NativeLibraryError";
  }
  return "MediaError";
}

std::string message_of(const Error& error, const std::string& source) {
  const bool opening = error.action() == "open";
  std::string message = opening ? "Failed to open the input" : "cannot " + error.action();
  if (!source.empty()) {
    message += (opening ? ": " : " ") + source;
  }
  return message + ": " + error.reason();
}

// Names of files and members may be any bytes; those that are not UTF-8 are shown with escapes.
nb::object text_of(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (text == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(text);
}

}  // namespace

PythonException::PythonException(const nb::python_error& error) {
  held_->exception = nb::borrow(error.value());
  if (const nb::object traceback = error.traceback(); traceback.is_valid() && !traceback.is_none()) {
    PyException_SetTraceback(held_->exception.ptr(), traceback.ptr());
  }
}

nb::object make_exception(const Error& error, const std::string& source) {
  if (const auto* foreign = dynamic_cast<const PythonException*>(error.foreign.get())) {
    return nb::borrow(foreign->get());
  }
  const nb::object type = nb::module_::import_("spdl.io._errors").attr(class_name(error.kind()));
  nb::dict attributes;
  attributes["source"] = source.empty() ? nb::object(nb::none()) : text_of(source);
  attributes["action"] = text_of(error.action());
  if (error.code) {
    attributes["code"] = *error.code;
  }
  if (error.kind() == ErrorKind::kDemux || error.kind() == ErrorKind::kDecode ||
      error.kind() == ErrorKind::kImageTooLarge || error.kind() == ErrorKind::kTimeout) {
    if (error.stream_index) {
      attributes["stream_index"] = *error.stream_index;
    }
    if (error.pts) {
      attributes["pts"] = *error.pts;
    }
  }
  const std::string message = message_of(error, source);
  return type(text_of(message), **attributes);
}

nb::object make_load_failure(std::size_t index, nb::handle source, nb::handle error) {
  return nb::module_::import_("spdl.io._types").attr("LoadFailure")(index, source, error);
}

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const nb::object exception = make_exception(error, error.source);
      PyErr_SetObject(exception.type().ptr(), exception.ptr());
    } catch (const Cancelled&) {
      raise_interrupt();
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, "native code ran out of memory");
    }
  });
}

}  // namespace spdl::bind
