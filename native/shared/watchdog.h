// Reports a standstill of Python that Python itself cannot report, because native code holds the GIL.
//
// Its thread, which needs neither Python nor the GIL, counts the time that the process has run. If the watchdog is
// armed and not armed again before the deadline, the thread writes the stacks of Python's threads to a descriptor.

#pragma once

#include <memory>
#include <string>

namespace spdl {

class Watchdog {
 public:
  // Starts the thread; the destructor ends it. `fd` is duplicated. Throws std::system_error.
  explicit Watchdog(int fd);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Seconds that this process has run since the start. Time while it was stopped (SIGSTOP) or the machine slept does
  // not count.
  double lived() const noexcept;
  // Reports `text` after an uninterrupted wait of `seconds` from now on, unless this is called again before. Replaces
  // the previous call.
  void arm(double seconds, std::string text);
  void disarm() noexcept;
  // Ends the thread, which closes its descriptor. Does not wait for it. Idempotent.
  void close() noexcept;
  // Sets whether anybody is waiting, from now on.
  void set_waiting(bool is_waiting) noexcept;
  // Whether a report was written since the last call.
  bool take_report() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may end later
  bool is_kept_ = false;          // in a forked child
};

}  // namespace spdl
