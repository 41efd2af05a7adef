// Deadlines and cancellation of blocking calls.
//
// A caller of code that may block makes a CancellationScope; code that blocks, on a pipe or a network, checks a Watch.
//
//   const CancellationScope scope(&ctrl_c_was_pressed);   // the caller, such as a binding
//   watch.restart();                                      // before each blocking operation
//   while (!watch.is_over()) { … }                        // in it
//   watch.throw_if_over("read", source);                  // after it
//
// Scopes belong to the thread that made them. A Watch has one owner, but `is_over` may be asked by any thread: libav
// has threads that read ahead.

#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace spdl {

// The interval at which blocking code checks for cancellation.
inline constexpr std::chrono::milliseconds kPatience{100};

// While it lives, blocking calls of this thread end once `is_cancelled` says so, which they ask every `kPatience`, and
// when a signal arrives. Scopes nest: the innermost is asked. An object of one thread, in automatic storage.
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
  // `timeout`: seconds that one blocking operation may take.
  explicit Watch(std::optional<double> timeout = std::nullopt);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // A blocking operation begins.
  void restart() noexcept;
  // Whether it has to end. `at_once`: asks the scope also if it was asked a moment ago, as after a signal.
  bool is_over(bool at_once = false) noexcept;
  // The operation has ended because of the timeout, perhaps a moment early. Without a timeout, nothing.
  void expire() noexcept;
  // Throws Cancelled, or Error(kTimeout), if it had to end.
  void throw_if_over(const char* action, const std::string& source = {}) const;
  // Until the operation has to end, in seconds; nothing without a timeout.
  std::optional<double> seconds_left() const noexcept;
  // How long a system call may wait before `is_over` is to be asked again, in milliseconds as poll(2) takes it.
  int patience() const noexcept;

 private:
  enum class State { kGoesOn, kTimedOut, kCancelled };
  using Clock = std::chrono::steady_clock;

  std::optional<Clock::duration> timeout_;
  std::atomic<Clock::rep> deadline_;
  std::atomic<State> state_ = State::kGoesOn;
};

}  // namespace spdl
