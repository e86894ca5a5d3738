/// The keys near a focus, for all engines. Kernels include this header.
#pragma once
#include <cstdint>
#if __has_include(<cmath>)  // NVRTC has no headers, but knows these functions
#include <cmath>
#endif

#include "tensor/formula/target.h"

namespace fovea {

/// The keys first ≤ s ≤ last with gate (s − focus)² / (2 sigma²) < threshold, in a sentence of `length` keys. If no key
/// satisfies this, the window is the key nearest to the focus. For length 0 the window is empty (last < first).
struct FocusWindow {
  std::int64_t first, last;
};
FOVEA_HD inline FocusWindow focus_window(double focus, double gate, double sigma, double threshold,
                                         std::int64_t length) {
  if (length == 0) return {0, -1};
  // a focus that is not a number is near no key and far from none
  if (!(gate > 0) || !(2 * threshold / gate <= 1e300) || focus != focus) return {0, length - 1};
  const auto last_key = static_cast<double>(length - 1);
  const auto within_row = [&](double s) { return s < 0 ? 0.0 : s > last_key ? last_key : s; };
  const double radius = sigma * ::sqrt(2 * threshold / gate);
  // the interval is open
  double first = ::floor(focus - radius) + 1, last = -::floor(-(focus + radius)) - 1;
  first = first < 0 ? 0 : first, last = last > last_key ? last_key : last;
  if (first > last) first = last = within_row(::floor(focus + 0.5));
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

}  // namespace fovea
