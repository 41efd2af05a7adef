// Objects that are slow to create, kept between calls for reuse by any thread.
//
// As in scratch.h, slots are exchanged without a lock, so a forked child never finds a slot held by a thread that it
// does not have. Bounded: an object that finds no empty slot replaces another one, which is deleted. Thread-safe.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace spdl {

// Make a pool that is never destroyed: threads may still be working while the process exits.
template <class T, std::size_t kSlots>
class IdlePool {
 public:
  // An idle object that was put with this hash and for which `fits(const T&) -> bool` is true; null if there is none.
  // May miss an object while another thread looks at one with the same hash.
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
    // Only a hint where to look: when two threads put at once, a slot may keep the other thread's hash.
    std::atomic<std::size_t> hash{0};
    std::atomic<T*> object{nullptr};
  };

  // False if the slot is no longer empty; the caller then keeps the object.
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
