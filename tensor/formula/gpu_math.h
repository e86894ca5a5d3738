/// The functions of math.h on a GPU: CUDA's own, and what is made of them. T is float or double.
///
/// The GPU's compiler reads this file as a part of math.h, and NVRTC before the text of formulas (cuda/compiled.h). It
/// therefore includes no standard header.
#pragma once
#include "tensor/formula/target.h"

namespace fovea::gpu {

template <class T>
FOVEA_HD FOVEA_INLINE T abs(T x) {
  return ::fabs(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T exp(T x) {
  return ::exp(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T log(T x) {
  return ::log(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T log1p(T x) {
  return ::log1p(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T sqrt(T x) {
  return ::sqrt(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T floor(T x) {
  return ::floor(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T tanh(T x) {
  return ::tanh(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T sigmoid(T x) {
  return T(1) / (T(1) + ::exp(-x));
}
template <class T>
FOVEA_HD FOVEA_INLINE T softplus(T x) {
  return (x > T(0) ? x : T(0)) + ::log1p(::exp(-::fabs(x)));
}
template <class T>
FOVEA_HD FOVEA_INLINE T erf(T x) {
  return ::erf(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T sin(T x) {
  return ::sin(x);
}
template <class T>
FOVEA_HD FOVEA_INLINE T cos(T x) {
  return ::cos(x);
}

// The choices of number.h, which NVRTC cannot read. They are no templates: where number.h is read too, these are taken.
FOVEA_HD FOVEA_INLINE float select(bool condition, float yes, float no) { return condition ? yes : no; }
FOVEA_HD FOVEA_INLINE double select(bool condition, double yes, double no) { return condition ? yes : no; }
FOVEA_HD FOVEA_INLINE float larger_of(float x, float y) { return x < y || y != y ? y : x; }
FOVEA_HD FOVEA_INLINE double larger_of(double x, double y) { return x < y || y != y ? y : x; }
FOVEA_HD FOVEA_INLINE float smaller_of(float x, float y) { return y < x || y != y ? y : x; }
FOVEA_HD FOVEA_INLINE double smaller_of(double x, double y) { return y < x || y != y ? y : x; }

}  // namespace fovea::gpu
