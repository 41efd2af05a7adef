// The one gate from libav's return codes to exceptions.
//
// EAGAIN and EOF are control flow where a function documents them: the caller handles them by name before the gate.

#pragma once

#include <string>

#include "base/error.h"

namespace spdl::av {

// FFmpeg's text for a code.
std::string error_text(int code);

// An Error with FFmpeg's text as the reason, and the code. `detail` comes before the text where it says more.
Error make_error(ErrorKind kind, int code, std::string action, std::string source = {}, const std::string& detail = {});

// Returns `code` if it is not negative, else throws. ENOMEM is as any other: libav says it of damaged data that asks for
// absurd sizes, far more often than for want of memory, and a std::bad_alloc could not say whose data it was.
int check(int code, ErrorKind kind, const char* action, const std::string& source = {});

}  // namespace spdl::av
