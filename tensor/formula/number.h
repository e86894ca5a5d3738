/// Functions that formulas need besides arithmetic, for float and double. cpu/simd.h defines the same functions for
/// SIMD vectors, so that a formula can be called with scalars and with vectors.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tensor/formula/target.h"

namespace fovea {

/// A SIMD vector of T: defined in cpu/simd.h, which only kernels of the CPU include.
template <class T>
struct Vec;

/// The signed integer type of the size of T, for comparison masks and operations on bits.
template <class T>
using IntegerOf = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

/// The scalar type that a SIMD vector or a dual number is made of; a scalar's own type.
template <class T>
struct ScalarOf {
  using type = T;
};

/// Returns `yes` if the condition is true, else `no`; for vectors, lane by lane. Both arguments are always evaluated.
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
FOVEA_HD FOVEA_INLINE T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

/// Whether a condition is true; for vectors, whether it is in any lane.
FOVEA_HD FOVEA_INLINE bool any_lane(bool condition) { return condition; }

/// Returns the larger or the smaller of two numbers, of any type that has < and select(); NaN if either is NaN. Dual
/// numbers have functions of their own (dual.h), because a select would give all of the derivative to one of two equal
/// numbers.
template <class T>
FOVEA_HD FOVEA_INLINE T larger_of(T x, T y) {
  return select(x < y, y, select(y == y, x, y));
}
template <class T>
FOVEA_HD FOVEA_INLINE T smaller_of(T x, T y) {
  return select(y < x, y, select(y == y, x, y));
}

/// Returns a b + c, rounded once.
FOVEA_HD FOVEA_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FOVEA_HD FOVEA_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
FOVEA_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
FOVEA_INLINE double square_root(double x) { return __builtin_sqrt(x); }
FOVEA_INLINE float round_down(float x) { return __builtin_floorf(x); }
FOVEA_INLINE double round_down(double x) { return __builtin_floor(x); }

}  // namespace fovea
