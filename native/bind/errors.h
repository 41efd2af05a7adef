// Turns native failures into Python exceptions. Hold the GIL in all of these functions.

#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "bind/gil.h"

namespace spdl::bind {

// A Python exception that passes through native code.
class PythonException final : public ForeignError {
 public:
  // The GIL is held.
  explicit PythonException(const nanobind::python_error& error);
  // On any thread, with or without the GIL.
  ~PythonException() override { drop_soon(std::move(held_)); }

  nanobind::handle get() const noexcept { return held_->exception; }

 private:
  struct Held : Deferred {
    nanobind::object exception;
  };

  std::unique_ptr<Held> held_ = std::make_unique<Held>();
};

// An instance of the class in spdl.io._errors for the error's kind, or the Python exception that the error carries.
// `source` names the failed source.
nanobind::object make_exception(const Error& error, const std::string& source);

// A spdl.io.LoadFailure.
nanobind::object make_load_failure(std::size_t index, nanobind::handle source, nanobind::handle error);

// Registers the translation of Errors that bindings throw into these classes.
void register_errors();

}  // namespace spdl::bind
