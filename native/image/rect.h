// A rectangle of samples or pixels.

#pragma once

namespace spdl {

struct Rect {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  constexpr int bottom() const noexcept { return top + height; }
  constexpr int right() const noexcept { return left + width; }

  friend bool operator==(const Rect&, const Rect&) = default;
};

}  // namespace spdl
