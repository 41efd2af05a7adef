#include "base/watch.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace spdl {
namespace {

// The innermost scope of this thread. Only its thread reads or writes it.
thread_local CancellationScope* innermost = nullptr;

// So that no sum of a time and a timeout overflows.
constexpr double kLongest = 1e9;

std::string text_of(std::chrono::steady_clock::duration timeout) {
  char text[40];
  std::snprintf(text, sizeof(text), "%g", std::chrono::duration<double>(timeout).count());
  return text;
}

}  // namespace

CancellationScope::CancellationScope(std::function<bool()> is_cancelled)
    : ask_(std::move(is_cancelled)), outer_(innermost), asked_(std::chrono::steady_clock::now()) {
  innermost = this;
}

CancellationScope::~CancellationScope() { innermost = outer_; }

bool CancellationScope::is_cancelled(bool at_once) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_cancelled_ && (at_once || now - asked_ >= kPatience)) {
    is_cancelled_ = ask_();
    asked_ = now;
  }
  return is_cancelled_;
}

Watch::Watch(std::optional<double> timeout) {
  if (timeout) {
    timeout_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(*timeout, kLongest)));
  }
  restart();
}

void Watch::restart() noexcept {
  deadline_ = timeout_ ? (Clock::now() + *timeout_).time_since_epoch().count() : Clock::duration::max().count();
  state_ = State::kGoesOn;
}

bool Watch::is_over(bool at_once) noexcept {
  if (state_ == State::kGoesOn) {
    if (innermost != nullptr && innermost->is_cancelled(at_once)) {
      state_ = State::kCancelled;
    } else if (timeout_ && Clock::now().time_since_epoch().count() >= deadline_) {
      state_ = State::kTimedOut;
    }
  }
  return state_ != State::kGoesOn;
}

void Watch::expire() noexcept {
  if (timeout_ && state_ == State::kGoesOn) {
    state_ = State::kTimedOut;
  }
}

void Watch::throw_if_over(const char* action, const std::string& source) const {
  switch (state_) {
    case State::kGoesOn:
      return;
    case State::kTimedOut:
      throw Error(ErrorKind::kTimeout, action,
                  "it took longer than the timeout of " + text_of(*timeout_) + " s")
          .in(source);
    case State::kCancelled:
      throw Cancelled();
  }
}

std::optional<double> Watch::seconds_left() const noexcept {
  if (!timeout_) {
    return std::nullopt;
  }
  const Clock::duration left = Clock::duration(deadline_) - Clock::now().time_since_epoch();
  return std::max(std::chrono::duration<double>(left).count(), 0.0);
}

int Watch::patience() const noexcept {
  using std::chrono::milliseconds;
  constexpr milliseconds kForever{-1};
  milliseconds wait = innermost != nullptr ? kPatience : kForever;
  if (timeout_) {
    const Clock::duration left = Clock::duration(deadline_) - Clock::now().time_since_epoch();
    const milliseconds rounded = std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds{0}, milliseconds{60'000});
    wait = wait == kForever ? rounded : std::min(wait, rounded);
  }
  return static_cast<int>(wait.count());
}

}  // namespace spdl
