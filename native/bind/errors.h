// From native failures to Python's exceptions. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "bind/gil.h"

namespace spdl::bind {

// An exception of Python's on its way through native code.
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

// An instance of the class in spdl.io._errors that stands for the error's kind, or the exception of Python's that the error carries.
// `source` names what it happened to.
nanobind::object make_exception(const Error& error, const std::string& source);

// A spdl.io.LoadFailure.
nanobind::object make_load_failure(std::size_t index, nanobind::handle source, nanobind::handle error);

// Makes Errors that bindings throw arrive as those classes.
void register_errors();

}  // namespace spdl::bind
