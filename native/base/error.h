// Failures that cross to Python as typed exceptions.
//
// An Error says what was attempted (action) and what came back (reason). The source is named by whoever knows it.
// bind/errors.cpp alone maps a kind to a Python class.
// Values; free to copy between threads.

#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace spdl {

enum class ErrorKind {
  kSourceNotFound,
  kOpen,
  kDecode,
  kConvert,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string action, std::string reason)
      : std::runtime_error(reason), kind_(kind), action_(std::move(action)), reason_(std::move(reason)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& action() const noexcept { return action_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  ErrorKind kind_;
  std::string action_;
  std::string reason_;
};

}  // namespace spdl
