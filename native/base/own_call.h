// Whether a thread is in a call of ours: for callbacks of libraries that others in the process use as well.

#pragma once

namespace spdl {

// The thread is, for as long as this lives. They nest. An object in automatic storage.
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
