/// Arithmetic on elements, which many operations use on whole tensors: Add, Multiply, Affine, Floor, Maximum, ... How a
/// functor is written: functor.h.
#pragma once
#include "tensor/formula/functor.h"

namespace fovea {

struct Add {
  static constexpr ListedName name = "add";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x + y; }
};

struct Subtract {
  static constexpr ListedName name = "subtract";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x - y; }
};

struct Multiply {
  static constexpr ListedName name = "multiply";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x * y; }
};

struct Divide {
  static constexpr ListedName name = "divide";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return x / y; }
};

/// x · slope, and 0 where x is 0 even if the slope is infinite: the product in the backward pass of an operation, where
/// x is the gradient with respect to its result.
struct GradientTimes {
  static constexpr ListedName name = "gradient_times";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto slope) const { return gradient_times(x, slope); }
};

/// x / divisor, and 0 where x is 0 even if the divisor is: the quotient in the backward pass of an operation, where x
/// is the gradient with respect to its result.
struct GradientOver {
  static constexpr ListedName name = "gradient_over";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto divisor) const { return gradient_over(x, divisor); }
};

/// slope · x + offset
struct Affine {
  static constexpr ListedName name = "affine";
  double slope = 1, offset = 0;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    using S = typename ScalarOf<T>::type;
    return x * T(S(slope)) + T(S(offset));
  }
};

struct Square {
  static constexpr ListedName name = "square";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return x * x; }
};

/// √x; its derivative at 0 is +inf.
struct Sqrt {
  static constexpr ListedName name = "sqrt";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return sqrt(x); }
};

/// |x|; its derivative at 0 is 0.
struct Abs {
  static constexpr ListedName name = "abs";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return abs(x); }
};

/// The largest integer that is not larger than x. Its derivative is 0.
struct Floor {
  static constexpr ListedName name = "floor";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x) const { return floor(x); }
};

/// The larger of two numbers; NaN if either is. Where they are equal, each has half of the derivative.
struct Maximum {
  static constexpr ListedName name = "maximum";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return larger_of(x, y); }
};

/// The smaller of two numbers; NaN if either is. Where they are equal, each has half of the derivative.
struct Minimum {
  static constexpr ListedName name = "minimum";
  FOVEA_HD FOVEA_INLINE auto operator()(auto x, auto y) const { return smaller_of(x, y); }
};

using ArithmeticFunctors = FunctorList<  //
    Add, Subtract, Multiply, Divide, GradientTimes, GradientOver, Affine, Square, Sqrt, Abs, Floor, Maximum, Minimum>;

}  // namespace fovea
