// Whether a thread is inside a call of this library, for callbacks of libraries that other code in the process uses
// too.

#pragma once

namespace spdl {

// While an object lives, its thread is inside a call. Objects nest. In automatic storage.
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

  // Called as the outermost call of a thread begins. Set when the library is loaded.
  static inline void (*on_begin)() noexcept = nullptr;

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace spdl
