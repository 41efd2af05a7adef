// Deadlines and cancellation of blocking calls.
//
// A caller of code that may block makes a CancellationScope; code that blocks, on a pipe or a network, checks a Watch.
//
//   const CancellationScope scope(&ctrl_c_was_pressed);   // the caller, such as a binding
//   watch.restart();                                      // before each blocking operation
//   while (!watch.is_over()) { … }                        // in it
//   watch.throw_if_over("read", source);                  // after it
//
// Scopes belong to the thread that made them. A Watch has one owner, but any thread may call `is_over`: libav has
// threads that read ahead.

#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace spdl {

// The interval at which blocking code checks for cancellation.
inline constexpr std::chrono::milliseconds kPatience{100};

// While it lives, blocking calls of this thread end once `is_cancelled` returns true. They call it every `kPatience`
// and when a signal arrives. Scopes nest: the innermost one is used. One thread per object; use it as a local variable
// only.
class CancellationScope {
 public:
  explicit CancellationScope(std::function<bool()> is_cancelled);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

 private:
  friend class Watch;

  bool is_cancelled(bool at_once);

  std::function<bool()> ask_;
  CancellationScope* outer_;
  std::chrono::steady_clock::time_point asked_;
  bool is_cancelled_ = false;
};

class Watch {
 public:
  // `timeout`: the limit in seconds for one blocking operation.
  explicit Watch(std::optional<double> timeout = std::nullopt);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Call when a blocking operation begins.
  void restart() noexcept;
  // Whether the operation must end. `at_once`: check the scope even if it was checked a moment ago, as after a signal.
  bool is_over(bool at_once = false) noexcept;
  // Call when the operation ended because of the timeout, perhaps slightly early. Does nothing without a timeout.
  void expire() noexcept;
  // Throws Cancelled or Error(kTimeout) if the operation had to end.
  void throw_if_over(const char* action, const std::string& source = {}) const;
  // Seconds until the operation must end; none without a timeout.
  std::optional<double> seconds_left() const noexcept;
  // How long a system call may wait before the next call of `is_over`, in milliseconds as for poll(2).
  int patience() const noexcept;

 private:
  enum class State { kGoesOn, kTimedOut, kCancelled };
  using Clock = std::chrono::steady_clock;

  std::optional<Clock::duration> timeout_;
  std::atomic<Clock::rep> deadline_;
  std::atomic<State> state_ = State::kGoesOn;
};

}  // namespace spdl
