/// The reductions (sum, maximum): for each, its neutral element `identity` and the function `join` that combines two
/// values, used on every device.
///
/// To add one, write the struct here, add its name to Reductions, and write the public function (tensor/reduce.h).
/// `join` must be associative up to rounding, and is called with scalars and with SIMD vectors.
#pragma once
#include <limits>

#include "tensor/formula/list.h"
#include "tensor/formula/math.h"

namespace fovea::formula {

/// The sum. Integers are summed up as i64, exactly up to 2^63.
struct Sum {
  static constexpr const char* name = "sum";
  static constexpr double identity = 0;
  template <class T>
  static FOVEA_HD FOVEA_INLINE T join(T total, T x) {
    return total + x;
  }
};

/// The maximum; NaN if any of the values is NaN.
struct MaximumOver {
  static constexpr const char* name = "maximum_over";
  static constexpr double identity = -std::numeric_limits<double>::infinity();
  template <class T>
  static FOVEA_HD FOVEA_INLINE T join(T total, T x) {
    return select((x > total) | (x != x), x, total);
  }
};

using Reductions = FunctorList<Sum, MaximumOver>;

}  // namespace fovea::formula
