#include "base/idle_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace spdl {
namespace {

std::atomic<int> num_alive{0};

struct Object {
  explicit Object(int of_kind) : kind(of_kind) { ++num_alive; }
  ~Object() { --num_alive; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  int kind;
  std::atomic<int> users{0};
};

auto is(int kind) {
  return [kind](const Object& object) { return object.kind == kind; };
}

}  // namespace

TEST_CASE("an object that was put away is taken by whoever wants its kind") {
  IdlePool<Object, 4> pool;
  CHECK(pool.take(1, is(1)) == nullptr);
  auto object = std::make_unique<Object>(1);
  const Object* const first = object.get();
  pool.put(1, std::move(object));
  CHECK(pool.take(2, is(2)) == nullptr);
  CHECK(pool.take(1, is(3)) == nullptr);  // the same hash, and not what was asked for
  CHECK(pool.take(1, is(1)).get() == first);
  CHECK(pool.take(1, is(1)) == nullptr);
}

TEST_CASE("no more objects are kept than there are slots") {
  num_alive = 0;
  {
    IdlePool<Object, 4> pool;
    for (int kind = 0; kind < 100; ++kind) {
      pool.put(static_cast<std::size_t>(kind), std::make_unique<Object>(kind));
      CHECK(num_alive <= 4);
      CHECK(pool.take(static_cast<std::size_t>(kind), is(kind)) != nullptr);
      pool.put(static_cast<std::size_t>(kind), std::make_unique<Object>(kind));
    }
    for (int kind = 0; kind < 100; ++kind) {
      pool.take(static_cast<std::size_t>(kind), is(kind));
    }
  }
  CHECK(num_alive == 0);
}

TEST_CASE("no object of a pool has two users at once, and none is lost") {
  num_alive = 0;
  std::atomic<bool> is_wrong{false};
  {
    IdlePool<Object, 3> pool;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2000; ++i) {
          const int kind = (t + i) % 5;
          const auto hash = static_cast<std::size_t>(kind % 2);  // some share one
          auto object = pool.take(hash, is(kind));
          if (object == nullptr) {
            object = std::make_unique<Object>(kind);
          }
          if (object->users.fetch_add(1) != 0 || object->kind != kind) {
            is_wrong = true;
          }
          object->users.fetch_sub(1);
          pool.put(hash, std::move(object));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(num_alive <= 3);
    for (int kind = 0; kind < 5; ++kind) {
      for (int slot = 0; slot < 3; ++slot) {
        for (const std::size_t hash : {std::size_t{0}, std::size_t{1}}) {
          pool.take(hash, is(kind));
        }
      }
    }
  }
  CHECK(num_alive == 0);
  CHECK_FALSE(is_wrong);
}

}  // namespace spdl
