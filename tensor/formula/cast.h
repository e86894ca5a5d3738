/// How an element of one type becomes an element of another, on every device.
#pragma once
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"

namespace fovea {

/// Converts between element types. A floating-point number becomes an integer by dropping its fraction; beyond the
/// range of the integer type it becomes the nearest number of that range, and NaN becomes 0. (C++ leaves both
/// undefined, and CPUs and GPUs differ in them.) A number is true as bool unless it is 0; NaN is true.
template <class To, class From>
FOVEA_HD To cast_element(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using Real = std::conditional_t<std::is_same_v<From, bf16>, float, From>;
    constexpr To least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
    constexpr Real beyond = 2 * static_cast<Real>(most / 2 + 1);  // exact, as `most` may not be
    const Real x = value;
    if (x != x) return 0;
    if (x <= static_cast<Real>(least)) return least;
    return x >= beyond ? most : static_cast<To>(x);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace fovea
