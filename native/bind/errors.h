// From native failures to Python's exceptions. The GIL is held in all of it.

#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/error.h"

namespace spdl::bind {

// An instance of the class in spdl.io._errors that stands for the error's kind. `source` names what it happened to.
nanobind::object make_exception(const Error& error, const std::string& source);

// A spdl.io.LoadFailure.
nanobind::object make_load_failure(std::size_t index, nanobind::handle source, nanobind::handle error);

// Makes Errors that bindings throw arrive as those classes.
void register_errors();

}  // namespace spdl::bind
