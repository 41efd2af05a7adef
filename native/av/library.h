// Information on the FFmpeg in use: its libraries, their files, and their contents. Thread-safe.

#pragma once

#include <string>
#include <vector>

namespace spdl::av {

struct Library {
  std::string name;  // libavcodec
  int major = 0;
  int minor = 0;
  int micro = 0;
  std::string path;  // of the file that holds its code; empty if the system cannot tell
};

// The linked FFmpeg libraries, in the order of their names.
std::vector<Library> libraries();

std::string version();  // of FFmpeg, such as 5.1.7-0+deb12u1
std::string license();
std::string configuration();

std::vector<std::string> filters();
// Throws Error(kFilter) if there is no such filter.
void require_filter(const std::string& name);

// The decoders for a codec, the default one first; empty for a codec that FFmpeg does not know.
std::vector<std::string> decoders(const std::string& codec);
std::vector<std::string> encoders(const std::string& codec);

}  // namespace spdl::av
