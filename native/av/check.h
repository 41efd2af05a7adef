// The one gate from libav's return codes to exceptions.
//
// EAGAIN and EOF are control flow where a function documents them: the caller handles them by name before the gate.

#pragma once

#include <string>

#include "base/error.h"

namespace spdl::av {

// FFmpeg's text for a code.
std::string error_text(int code);

// An Error with the code, and with FFmpeg's text as the reason. A `detail` that says more goes before the text.
Error make_error(ErrorKind kind, int code, std::string action, std::string source = {}, const std::string& detail = {});

// Returns `code` if it is not negative, else throws. ENOMEM is treated like any other code: libav returns it for
// damaged data with absurd sizes far more often than for lack of memory, and a std::bad_alloc could not name the
// source.
int check(int code, ErrorKind kind, const char* action, const std::string& source = {});

}  // namespace spdl::av
