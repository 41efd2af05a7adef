// Objects that took long to make, kept between calls for whoever needs one of the same kind. Any thread may take them.
//
// As in scratch.h, slots are exchanged without a lock, so a child of fork never finds one held by a thread that it does
// not have. Bounded: what finds no empty slot takes that of another, which is deleted. Thread-safe.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace spdl {

// Make one that is never destroyed: threads may still be at work while the process ends.
template <class T, std::size_t kSlots>
class IdlePool {
 public:
  // An idle object that was put with this hash and that `fits(const T&) -> bool`; null if there is none. While another
  // thread looks at an object of the same hash, it may not be found.
  template <class Fits>
  std::unique_ptr<T> take(std::size_t hash, Fits&& fits) {
    for (Slot& slot : slots_) {
      if (slot.hash.load(std::memory_order_relaxed) != hash || slot.object.load(std::memory_order_relaxed) == nullptr) {
        continue;
      }
      std::unique_ptr<T> object(slot.object.exchange(nullptr, std::memory_order_acq_rel));
      if (object && fits(static_cast<const T&>(*object))) {
        return object;
      }
      if (object) {
        put_into(slot, hash, std::move(object));
      }
    }
    return nullptr;
  }

  void put(std::size_t hash, std::unique_ptr<T> object) noexcept {
    for (Slot& slot : slots_) {
      if (slot.object.load(std::memory_order_relaxed) == nullptr && put_into(slot, hash, std::move(object))) {
        return;
      }
    }
    Slot& slot = slots_[next_.fetch_add(1, std::memory_order_relaxed) % kSlots];
    slot.hash.store(hash, std::memory_order_relaxed);
    object.reset(slot.object.exchange(object.release(), std::memory_order_acq_rel));
  }

 private:
  struct Slot {
    // Only a hint where to look: two threads that put at once may leave that of the other.
    std::atomic<std::size_t> hash{0};
    std::atomic<T*> object{nullptr};
  };

  // False, and the object stays the caller's, if the slot is not empty any more.
  static bool put_into(Slot& slot, std::size_t hash, std::unique_ptr<T>&& object) noexcept {
    T* expected = nullptr;
    if (!slot.object.compare_exchange_strong(expected, object.get(), std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
      return false;
    }
    (void)object.release();
    slot.hash.store(hash, std::memory_order_relaxed);
    return true;
  }

  std::array<Slot, kSlots> slots_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace spdl
