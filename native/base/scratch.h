// Scratch memory, kept between calls and reused by any thread.
//
// A thread that lives for one call would lose thread_local memory, so idle scratch memory belongs to the process:
// `Scratch<T> scratch;` takes an idle one or makes one, and puts it back in its destructor. Slots are exchanged without
// a lock, so a forked child never finds a slot held by a thread that it does not have. Thread-safe.

#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace spdl {

template <class T>
class Scratch {
 public:
  Scratch() : object_(take()) {
    if (!object_) {
      object_ = std::make_unique<T>();
    }
  }
  ~Scratch() { put(std::move(object_)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T& operator*() noexcept { return *object_; }
  T* operator->() noexcept { return object_.get(); }

 private:
  // More than this many in use at once is rare; scratch memory that finds no free slot is deleted.
  static constexpr std::size_t kSlots = 64;

  struct Idle {
    std::array<std::atomic<T*>, kSlots> slots{};
  };
  // Never destroyed: threads may still be loading while the process exits.
  static Idle& idle() {
    static Idle* const all = new Idle;
    return *all;
  }

  static std::unique_ptr<T> take() {
    for (auto& slot : idle().slots) {
      if (slot.load(std::memory_order_relaxed) != nullptr) {
        if (T* object = slot.exchange(nullptr, std::memory_order_acquire)) {
          return std::unique_ptr<T>(object);
        }
      }
    }
    return nullptr;
  }

  static void put(std::unique_ptr<T> object) noexcept {
    for (auto& slot : idle().slots) {
      T* expected = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          slot.compare_exchange_strong(expected, object.get(), std::memory_order_release, std::memory_order_relaxed)) {
        (void)object.release();
        return;
      }
    }
  }

  std::unique_ptr<T> object_;
};

}  // namespace spdl
