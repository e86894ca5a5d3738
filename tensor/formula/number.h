/// What formulas need of a number besides arithmetic: for float and double here, and for SIMD vectors of them in
/// cpu/simd.h, whatever a formula is called with.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tensor/formula/target.h"

namespace fovea {

/// A SIMD vector of T: defined in cpu/simd.h, which only kernels of the CPU include.
template <class T>
struct Vec;

/// The signed integer of T's size: what comparisons and bit tricks work on.
template <class T>
using IntegerOf = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

/// The scalar type of a SIMD vector, or of a scalar itself.
template <class T>
struct ScalarOf {
  using type = T;
};

/// yes where the condition holds, no elsewhere; both are evaluated.
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
FOVEA_HD FOVEA_INLINE T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

/// a b + c, rounded once.
FOVEA_HD FOVEA_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FOVEA_HD FOVEA_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
FOVEA_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
FOVEA_INLINE double square_root(double x) { return __builtin_sqrt(x); }
FOVEA_INLINE float round_down(float x) { return __builtin_floorf(x); }
FOVEA_INLINE double round_down(double x) { return __builtin_floor(x); }

}  // namespace fovea
