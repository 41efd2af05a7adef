// Whether a thread is inside a call of this library. For callbacks of libraries that other code in the process also
// uses.

#pragma once

namespace spdl {

// While an object lives, its thread counts as inside a call. Objects nest; use them as local variables only.
class OwnCall {
 public:
  OwnCall() noexcept {
    if (depth_++ == 0 && on_begin != nullptr) {
      on_begin();
    }
  }
  ~OwnCall() { --depth_; }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

  static bool is_under_way() noexcept { return depth_ > 0; }

  // Called when the outermost call of a thread begins. Set when the library is loaded.
  static inline void (*on_begin)() noexcept = nullptr;

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace spdl
