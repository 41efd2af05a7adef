#include "bind/sources.h"

#include <cstdio>
#include <span>

namespace nb = nanobind;

namespace spdl::bind {
namespace {

std::string path_bytes(nb::handle text, const char* what) {
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded.is_valid()) {
    throw nb::python_error();
  }
  const auto bytes = nb::borrow<nb::bytes>(encoded);
  std::string path(bytes.c_str(), bytes.size());
  if (path.find('\0') != std::string::npos) {
    throw nb::value_error((std::string(what) + " is a path that contains a null character").c_str());
  }
  return path;
}

// A path that cannot be encoded is shown with escapes.
std::string shown(nb::handle text) {
  const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!encoded.is_valid()) {
    throw nb::python_error();
  }
  const auto bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

}  // namespace

HeldSource hold_source(nb::handle source, const char* what) {
  HeldSource result;
  if (nb::isinstance<nb::str>(source)) {
    result.source = path_bytes(source, what);
    return result;
  }
  const Export& held = result.held.emplace(source, false, what);
  if (!held.is_byte_string()) {
    throw nb::type_error((std::string(what) + " must be a one-dimensional buffer of bytes").c_str());
  }
  result.source = std::span<const std::uint8_t>(held.data(), held.size());
  return result;
}

std::optional<std::string_view> plain_path(nb::handle source) noexcept {
  PyObject* const text = source.ptr();
  if (!PyUnicode_CheckExact(text)) {
    return std::nullopt;
  }
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(text, &size);  // for ASCII, the object's own bytes
  if (data == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (size != PyUnicode_GetLength(text)) {
    return std::nullopt;
  }
  const std::string_view path(data, static_cast<std::size_t>(size));
  return path.find('\0') == std::string_view::npos ? std::optional(path) : std::nullopt;
}

std::string name_of(const ImageSource& source, nb::handle name) {
  if (!name.is_none()) {
    return shown(name);
  }
  if (const auto* path = std::get_if<std::string>(&source)) {
    return shown(nb::steal(PyUnicode_DecodeFSDefaultAndSize(path->data(), static_cast<Py_ssize_t>(path->size()))));
  }
  char address[40];
  std::snprintf(address, sizeof(address), "Bytes: 0x%zx", reinterpret_cast<std::size_t>(std::get<1>(source).data()));
  return address;
}

}  // namespace spdl::bind
