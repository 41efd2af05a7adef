// A guarded native object for Python: one call may consume it, and access from several threads is checked.
//
// Native code works without the GIL, so two threads may access one object at the same time; on free-threaded Python,
// always. A Handle allows any number of readers or one owner. Conflicting access throws an exception and never waits.

#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace spdl::bind {

template <class T>
class Handle {
 public:
  explicit Handle(T value) : value_(std::move(value)) {}

  // Shared or exclusive access to the value (`*guard`), until the guard is destroyed.
  class Guard {
   public:
    Guard(Handle& handle, int share) noexcept : handle_(&handle), share_(share) {}
    Guard(Guard&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), share_(other.share_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (handle_ != nullptr) {
        handle_->users_.fetch_sub(share_, std::memory_order_release);
      }
    }
    T& operator*() const noexcept { return *handle_->value_; }
    T* operator->() const noexcept { return &*handle_->value_; }

   private:
    Handle* handle_;
    int share_;
  };

  // Read access, which several threads may have at once. Throws Error(kConsumed, kMedia).
  Guard read(const char* what) const {
    auto& self = const_cast<Handle&>(*this);
    int users = users_.load(std::memory_order_acquire);
    do {
      refuse(users < 0, users, what);
    } while (!self.users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire));
    return Guard(self, 1);
  }

  // Exclusive access. Throws Error(kConsumed, kMedia).
  Guard own(const char* what) {
    seize(what);
    return Guard(*this, kOwned);
  }

  // Takes the value out permanently. Throws Error(kConsumed, kMedia).
  T take(const char* what) {
    seize(what);
    T taken = std::move(*value_);
    value_.reset();
    users_.store(kGone, std::memory_order_release);
    return taken;
  }

  // As `take`, but without an error if there is no value: true if this call took it.
  bool is_gone() const noexcept { return users_.load(std::memory_order_acquire) == kGone; }

 private:
  static constexpr int kOwned = -1;
  static constexpr int kGone = -2;

  void seize(const char* what) {
    int idle = 0;
    if (!users_.compare_exchange_strong(idle, kOwned, std::memory_order_acquire)) {
      refuse(true, idle, what);
    }
  }

  static void refuse(bool is_refused, int users, const char* what) {
    if (!is_refused) {
      return;
    }
    if (users == kGone) {
      throw Error(ErrorKind::kConsumed, std::string("use ") + what,
                  "they were consumed by an earlier call; give that call a clone() to keep them");
    }
    throw Error(ErrorKind::kMedia, std::string("use ") + what, "another thread is using the same object");
  }

  std::optional<T> value_;
  std::atomic<int> users_{0};  // readers; or kOwned, kGone
};

}  // namespace spdl::bind
