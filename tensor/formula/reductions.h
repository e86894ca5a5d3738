/// How a reduction joins two values, for every device: its neutral element, and the rule.
///
/// To add one: write the struct here, add it to the enum and to visit_reduction, and write the public function
/// (tensor/reduce.h). `join` is associative, and is called with numbers and with vectors of them.
#pragma once
#include <limits>

#include "tensor/formula/math.h"

namespace fovea {

enum class Reduction { sum, maximum_over };

namespace formula {

struct Sum {
  static constexpr const char* name = "sum";
  static constexpr double identity = 0;
  template <class T>
  static FOVEA_HD FOVEA_INLINE T join(T total, T x) {
    return total + x;
  }
};

/// NaN wins, wherever it stands.
struct MaximumOver {
  static constexpr const char* name = "maximum_over";
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  template <class T>
  static FOVEA_HD FOVEA_INLINE T join(T total, T x) {
    return select((x > total) | (x != x), x, total);
  }
};

/// Calls body with the struct of a reduction.
template <class Body>
void visit_reduction(Reduction reduction, const Body& body) {
  if (reduction == Reduction::sum) return body(Sum{});
  body(MaximumOver{});
}

}  // namespace formula

}  // namespace fovea
