// For loops that spin for some microseconds before their thread sleeps. Thread-safe.

#pragma once

#include <thread>

namespace spdl {

// Tells the processor that the thread spins.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether another thread can run while this one spins.
inline bool has_processors() noexcept {
  static const bool value = std::thread::hardware_concurrency() > 1;  // libstdc++ heeds the affinity
  return value;
}

}  // namespace spdl
