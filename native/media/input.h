// An opened container: a file or URL by name, or data in memory that is read in place.
//
// Owns libav's context, and for data in memory the reader that libav calls back; the data itself belongs to the caller
// and must outlive the Input. One thread per object.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "av/options.h"
#include "av/owners.h"

namespace spdl {

struct DemuxConfig {
  std::optional<std::string> format;  // for data without a header
  av::Options format_options;
  int buffer_size = 8096;  // bytes
  bool tolerate_errors = false;
};

// A path or URL, or data that the caller keeps alive and unchanged.
using MediaSource = std::variant<std::string, std::span<const std::uint8_t>>;

class Input {
 public:
  // Throws Error: kSourceNotFound, kOpen (not media), kDemux (unknown format or option). `name` is what messages say.
  Input(const MediaSource& source, std::string name, const DemuxConfig& config);
  ~Input();
  Input(Input&&) noexcept;
  Input& operator=(Input&&) noexcept;

  AVFormatContext& context() const noexcept { return *context_; }
  const std::string& name() const noexcept { return name_; }

 private:
  struct Memory;
  std::string name_;
  std::unique_ptr<Memory> memory_;  // before the context, which reads from it until it is closed
  av::InputPtr context_;
};

}  // namespace spdl
