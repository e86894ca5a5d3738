/// exp, log, tanh, erf, ... for float, double and SIMD vectors of them. One template computes a scalar and a vector.
///
/// A scalar and a vector lane give the same bits, on every machine: a product that is added to something is written as
/// fma, and nothing depends on the instruction set. All functions return NaN for NaN, and assume rounding to nearest.
/// They are branch-free, except that sin and cos leave lanes with large angles to a function for one number.
///
/// The polynomial coefficients are minimax: computed by the Remez exchange algorithm for the error relative to the
/// function's value, with 60 digits (mpmath), and then rounded to the type. For f32 they were rounded one after the
/// other, and the remaining coefficients refitted each time. Stated errors are in units in the last place of the result
/// (ulp); they are bounds on the largest error found in comparison with long double.
///
/// On the GPU, the functions call CUDA's own functions instead (gpu_math.h).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/formula/large_angles.h"
#include "tensor/formula/number.h"
#ifdef __CUDACC__
#include "tensor/formula/gpu_math.h"
#endif

namespace fovea {

/// float, double, or a SIMD vector of float or double.
template <class T>
concept RealOrVec = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Vec<float>> ||
    std::is_same_v<T, Vec<double>>;

namespace approximation {

template <class T>
using Scalar = typename ScalarOf<T>::type;

/// Returns the bits of a number as an unsigned integer, or the bits of every lane of a vector.
template <class T>
FOVEA_INLINE auto bits_of(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    std::make_unsigned_t<IntegerOf<T>> bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  } else {
    return (typename T::Bits)x.native;
  }
}
template <class T, class Bits>
FOVEA_INLINE T from_bits(Bits bits) {
  if constexpr (std::is_floating_point_v<T>) {
    T x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  } else {
    return T((typename T::Native)bits);
  }
}

/// Returns c[0] + c[1] x + c[2] x² + ..., computed by Horner's rule.
template <std::size_t k = 0, class T, std::size_t n>
FOVEA_INLINE T polynomial(T x, const Scalar<T> (&c)[n]) {
  if constexpr (k + 1 == n)
    return T(c[k]);
  else
    return fma(polynomial<k + 1>(x, c), x, T(c[k]));
}

/// Constants that differ between f32 and f64. A constant in two parts, `high` + `low`, has twice the type's precision;
/// with a third part, `rest`, it has three times that precision.
template <class S>
struct Constants;

template <>
struct Constants<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr int exponent_bias = 127;
  static constexpr float round = 12582912;  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits
  static constexpr float ln2_high = 0.693147182F, ln2_low = -1.90465421e-9F;
  static constexpr float pi_high = 3.14159274F, pi_low = -8.74227766e-8F, pi_rest = -3.43024902e-15F;
  static constexpr float exp_least = -87.3365402F, exp_greatest = 88.7228317F;  // between them exp is normal and finite
  static constexpr float tanh_is_one = 10;
  static constexpr float erf_is_one = 4, erf_split = 0.9F;

  // Coefficients of polynomials, each for the function, the interval and the error that its comment gives.
  // (exp(r) − 1 − r) / r² for |r| ≤ ln(2) / 2; error 1.4e-8 relative to exp(r) − 1
  static constexpr float exp[] = {0.4999999702F, 0.1666653901F, 0.04166774452F, 0.008367048576F, 0.001383968978F};
  // (2 atanh(s) − 2 s) / s³ as a polynomial in z = s², for |s| ≤ 3 − √8; error 8.2e-10 relative to the logarithm
  static constexpr float log[] = {0.6666677594F, 0.3997756839F, 0.298714608F};
  // (sin(r) − r) / r³ as a polynomial in z = r², for |r| ≤ π / 2; error 6.2e-9 relative to sin(r)
  static constexpr float sin[] = {-0.1666665971F, 0.008333069272F, -0.0001980977686F, 2.606095677e-6F};
  // erf(a) / a − 1 as a polynomial in z = a², for a ≤ 0.9; error 1.4e-8 relative to erf(a)
  static constexpr float erf_near[] = {0.1283791512F,   -0.3761250377F,  0.1128192171F,
                                       -0.02677049302F, 0.004998959135F, -0.0006020799628F};
  // log(1 − erf(a)) as a polynomial in a, for 0.9 ≤ a ≤ 4; error 1.8e-9 relative to erf(a)
  static constexpr float erf_far[] = {-0.0001652204082F, -1.127802372F,    -0.636967361F,   -0.104121387F,
                                      0.02231894061F,    -0.003066424048F, 0.0001983139082F};
};

template <>
struct Constants<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr int exponent_bias = 1023;
  static constexpr double round = 6755399441055744;  // 1.5 · 2^52
  static constexpr double ln2_high = 0.693147180559945286, ln2_low = 2.31904681384629956e-17;
  static constexpr double pi_high = 3.14159265358979312, pi_low = 1.22464679914735321e-16,
                          pi_rest = -2.99476980971833967e-33;
  static constexpr double exp_least = -708.3964185322641, exp_greatest = 709.782712893384;
  static constexpr double tanh_is_one = 20;
  static constexpr double erf_is_one = 6, erf_split = 1;

  // Approximate the same functions as the polynomials for float, with erf_near for a ≤ 1 and erf_far for 1 ≤ a ≤ 6. The
  // relative errors are 3.2e-17 (exp), 1.3e-18 (log), 3.0e-19 (sin), 2.2e-17 (erf_near) and 4.9e-17 (erf_far).
  static constexpr double exp[] = {0.500000000000000555,   0.16666666666666588,    0.0416666666665761048,
                                   0.00833333333338995112, 0.00138888889317952536, 0.00019841269718362192,
                                   2.4801504978861256e-5,  2.75574078420374474e-6, 2.76261613399318848e-7,
                                   2.50537854376910653e-8};
  static constexpr double log[] = {0.666666666666673513, 0.399999999994093525, 0.285714287436365233,
                                   0.222221984429609498, 0.181835710809386292, 0.1531387948808004,
                                   0.147976386883859168};
  static constexpr double sin[] = {-0.166666666666666657,    0.00833333333333320658,  -0.000198412698412124788,
                                   2.75573192115693975e-6,   -2.50521069043952483e-8, 1.60589409989178041e-10,
                                   -7.64301920172194267e-13, 2.7214166013347686e-15};
  static constexpr double erf_near[] = {0.128379167095512559,    -0.376126389031835151,   0.11283791670944078,
                                        -0.0268661706430938577,  0.00522397760596984752,  -0.000854832592201337695,
                                        0.000120552933538143727, -1.49247079340077764e-5, 1.64470767438624257e-6,
                                        -1.62058872432483e-7,    1.37091086794966911e-8,  -7.77592732108499679e-10};
  static constexpr double erf_far[] = {-1.05746906694137998e-6,  -1.1283687665386013,     -0.636667355775496935,
                                       -0.102638211387763301,    0.0188663552177900304,   0.000582843181305057112,
                                       -0.00209762118964425303,  0.000919107687806309257, -0.000230179476975346867,
                                       2.77938225939568176e-5,   3.68014026051967087e-6,  -2.69103535051325269e-6,
                                       6.91303326192417772e-7,   -1.08729779192543851e-7, 1.09533919133920175e-8,
                                       -6.54832961135668993e-10, 1.77883062452870646e-11};
};

template <class T>
inline constexpr Scalar<T> infinity = std::numeric_limits<Scalar<T>>::infinity();

/// Returns the sign bit of x, with all other bits 0.
template <class T>
FOVEA_INLINE auto sign_of(T x) {
  return bits_of(x) & bits_of(T(Scalar<T>(-0.0)));
}
/// Returns x, which must be ≥ 0, with the sign of `sign`.
template <class T>
FOVEA_INLINE T with_sign(T x, T sign) {
  return from_bits<T>(bits_of(x) | sign_of(sign));
}
/// Returns the smaller of x and `limit`; NaN if x is NaN.
template <class T>
FOVEA_INLINE T at_most(T x, Scalar<T> limit) {
  return select(x > T(limit), T(limit), x);
}

/// exp(x) in two factors: exp(x) = 2^n exp(r) with n an integer and r = x − n ln 2. To keep r accurate, ln 2 is
/// subtracted in two parts, `ln2_high` and `ln2_low` (Cody and Waite).
template <class T>
struct ExpParts {
  T fraction;                            ///< exp(r) − 1
  decltype(bits_of(T{})) exponent_bits;  ///< n, shifted to the exponent bits of a floating-point number

  FOVEA_INLINE T scale() const { return from_bits<T>(bits_of(T(Scalar<T>(1))) + exponent_bits); }  ///< 2^n
};
template <class T>
FOVEA_INLINE ExpParts<T> exp_parts(T x) {
  using S = Scalar<T>;
  using C = Constants<S>;
  T shifted = fma(x, T(S(1.4426950408889634)), T(C::round));  // 1 / ln 2
  T n = shifted - T(C::round);
  T r = fma(n, T(-C::ln2_high), x);
  r = fma(n, T(-C::ln2_low), r);
  return {fma(r * r, polynomial(r, C::exp), r), bits_of(shifted) << C::mantissa_bits};
}

/// Returns k ln 2 + log(1 + f) for 1 + f in [√½, √2]. With s = f / (2 + f) and R = 2 atanh(s) / s − 2 it holds that
/// log(1 + f) = 2 atanh(s) = f − s (f − R), and f − s f = f − f² / 2 + s f² / 2, whose first term, f, is exact.
template <class T>
FOVEA_INLINE T log_from_parts(T k, T f) {
  using S = Scalar<T>;
  using C = Constants<S>;
  T s = f / (f + T(S(2)));
  T z = s * s;
  T half_square = f * (f * T(S(0.5)));
  T tail = fma(s, fma(z, polynomial(z, C::log), half_square), k * T(C::ln2_low));
  return fma(k, T(C::ln2_high), f - (half_square - tail));
}

/// Returns k plus the exponent bias, as an integer, where x = 2^k m with m in [√½, √2); x is positive and normal.
template <class T>
FOVEA_INLINE auto biased_exponent(T x) {
  using S = Scalar<T>;
  using C = Constants<S>;
  return (bits_of(x) + (bits_of(T(S(1))) - bits_of(T(S(0.70710678118654752))))) >> C::mantissa_bits;
}
/// Converts the integer that biased_exponent returned to a floating-point number, and subtracts `bias` from it.
template <class T, class Bits>
FOVEA_INLINE T exponent_as_number(Bits biased, T bias) {
  using C = Constants<Scalar<T>>;
  return from_bits<T>(biased + bits_of(T(C::round))) - (T(C::round) + bias);
}

/// Returns log(1 + x) for −1 < x < ∞.
template <class T>
FOVEA_INLINE T log1p_inside(T x) {
  using S = Scalar<T>;
  using C = Constants<S>;
  auto biased = biased_exponent(x + T(S(1)));
  auto exponent_bits = (biased << C::mantissa_bits) - bits_of(T(S(1)));
  // 1 + x = 2^k (1 + f). The sum f = 2^−k (1 + x) − 1 is rounded only once, and is exactly x if k = 0.
  T scaled = from_bits<T>(bits_of(x) - exponent_bits);
  T half_scale_less_one = fma(from_bits<T>(bits_of(T(S(2))) - exponent_bits), T(S(0.5)), T(S(-1)));
  return log_from_parts(exponent_as_number(biased, T(S(C::exponent_bias))), scaled + half_scale_less_one);
}

/// Returns (−1)^n sin(r) with r = x − turns · π, where n is even if the lowest bit of `shifted` is 0, and odd
/// otherwise.
template <class T>
FOVEA_INLINE T sin_reduced(T x, T turns, T shifted) {
  using S = Scalar<T>;
  using C = Constants<S>;
  T r = fma(turns, T(-C::pi_high), x);
  r = fma(turns, T(-C::pi_low), r);
  r = fma(turns, T(-C::pi_rest), r);
  T z = r * r;
  T y = fma(r * z, polynomial(z, C::sin), r);
  return from_bits<T>(bits_of(y) ^ (bits_of(shifted) << (8 * sizeof(S) - 1)));
}

/// The largest |x| for which sin_reduced is accurate.
inline constexpr double greatest_reduced = 1e4;

/// Returns `y`, the sine or cosine of x, with the lanes of x beyond greatest_reduced computed again.
template <class T>
__attribute__((noinline, cold)) T with_large_angles(T x, T y, bool plus_right_angle) {
  using S = Scalar<T>;
  auto is_large = [](S x) { return !(x <= S(greatest_reduced) && x >= S(-greatest_reduced)); };
  auto compute = [&](S x) { return static_cast<S>(sine_of_large(static_cast<double>(x), plus_right_angle)); };
  if constexpr (std::is_floating_point_v<T>) {
    return compute(x);
  } else {
    for (int lane = 0; lane < T::lanes; ++lane)
      if (is_large(x[lane])) y.native[lane] = compute(x[lane]);
    return y;
  }
}

}  // namespace approximation

/// |x|.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T abs(T x) {
#ifdef __CUDA_ARCH__
  return gpu::abs(x);
#else
  using namespace approximation;
  return from_bits<T>(bits_of(x) & ~bits_of(T(Scalar<T>(-0.0))));
#endif
}

/// e^x, error < 1.1 ulp. Exactly 0 where the result would be denormal (x < −87.34 in f32, x < −708.4 in f64) and for
/// −inf; inf where the result would overflow (from 88.73 in f32, from 709.79 in f64).
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T exp(T x) {
#ifdef __CUDA_ARCH__
  return gpu::exp(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  using C = Constants<S>;
  ExpParts<T> parts = exp_parts(x);
  T y = from_bits<T>(bits_of(parts.fraction + T(S(1))) + parts.exponent_bits);
  y = select(x <= T(C::exp_greatest), y, x + T(infinity<T>));  // x + inf is inf, or NaN if x is NaN
  return select(x < T(C::exp_least), T(S(0)), y);
#endif
}

/// Natural logarithm, error < 0.9 ulp, also of denormals. log(±0) = −inf; NaN for x < 0.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T log(T x) {
#ifdef __CUDA_ARCH__
  return gpu::log(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  using C = Constants<S>;
  constexpr S bias = C::exponent_bias;
  auto is_denormal = x < T(std::numeric_limits<S>::min());
  T normal = select(is_denormal, x * T(1 / std::numeric_limits<S>::epsilon()), x);
  auto biased = biased_exponent(normal);
  T k = exponent_as_number(biased, select(is_denormal, T(bias + C::mantissa_bits), T(bias)));
  T m = from_bits<T>(bits_of(normal) - (biased << C::mantissa_bits) + bits_of(T(S(1))));
  T y = select(x < T(infinity<T>), log_from_parts(k, m - T(S(1))), x);
  T outside = select(x == T(S(0)), T(-infinity<T>), T(std::numeric_limits<S>::quiet_NaN()));
  return select(x > T(S(0)), y, outside);
#endif
}

/// log(1 + x), error < 1.5 ulp, also for x near 0. log1p(−1) = −inf; NaN for x < −1.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T log1p(T x) {
#ifdef __CUDA_ARCH__
  return gpu::log1p(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  T y = select(x < T(infinity<T>), log1p_inside(x), x);
  T outside = select(x == T(S(-1)), T(-infinity<T>), T(std::numeric_limits<S>::quiet_NaN()));
  return select(x > T(S(-1)), y, outside);
#endif
}

/// √x, correctly rounded; NaN for x < 0.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T sqrt(T x) {
#ifdef __CUDA_ARCH__
  return gpu::sqrt(x);
#else
  return square_root(x);
#endif
}

/// The greatest integer that is not above x.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T floor(T x) {
#ifdef __CUDA_ARCH__
  return gpu::floor(x);
#else
  return round_down(x);
#endif
}

/// Hyperbolic tangent, error < 2.6 ulp, also for x near 0; ±1 for large |x|. Computed as tanh(a) = t / (t + 2) with
/// a = |x| and t = exp(2 a) − 1. The larger t is, the less its error affects the quotient.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T tanh(T x) {
#ifdef __CUDA_ARCH__
  return gpu::tanh(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  T a = at_most(abs(x), Constants<S>::tanh_is_one);
  ExpParts<T> parts = exp_parts(a + a);
  T scale = parts.scale();
  T t = fma(parts.fraction, scale, scale - T(S(1)));
  return with_sign(t / (t + T(S(2))), x);
#endif
}

/// 1 / (1 + e^−x), error < 2.6 ulp; exactly 0 below about −88 in f32 (−709 in f64), and 1 for large x.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T sigmoid(T x) {
#ifdef __CUDA_ARCH__
  return gpu::sigmoid(x);
#else
  using S = typename ScalarOf<T>::type;
  return T(S(1)) / (T(S(1)) + exp(-x));
#endif
}

/// log(1 + e^x) = max(x, 0) + log1p(e^−|x|), error < 1.8 ulp; exactly 0 below about −87 in f32 (−708 in f64).
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T softplus(T x) {
#ifdef __CUDA_ARCH__
  return gpu::softplus(x);
#else
  using S = typename ScalarOf<T>::type;
  return select(x > T(S(0)), x, T(S(0))) + approximation::log1p_inside(exp(-abs(x)));
#endif
}

/// The error function 2 / √π ∫_0^x e^−t² dt, error < 1.5 ulp, also for x near 0; ±1 for large |x|.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T erf(T x) {
#ifdef __CUDA_ARCH__
  return gpu::erf(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  using C = Constants<S>;
  T a = at_most(abs(x), C::erf_is_one);
  T near = fma(a, polynomial(a * a, C::erf_near), a);
  ExpParts<T> parts = exp_parts(polynomial(a, C::erf_far));
  T far = T(S(1)) - (parts.fraction + T(S(1))) * parts.scale();
  return with_sign(select(a < T(C::erf_split), near, far), x);
#endif
}

/// Sine, error < 1.8 ulp for |x| ≤ 1e4 and < 3 ulp for any larger x; NaN for ±inf. Beyond 1e4 it is slower.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T sin(T x) {
#ifdef __CUDA_ARCH__
  return gpu::sin(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  using C = Constants<S>;
  T shifted = fma(x, T(S(0.31830988618379067)), T(C::round));  // 1 / π
  T y = sin_reduced(x, shifted - T(C::round), shifted);
  return any_lane(abs(x) > T(S(greatest_reduced))) ? with_large_angles(x, y, false) : y;
#endif
}

/// Cosine, computed as sin(x + π / 2) without rounding that sum. Accuracy and range are those of sin.
template <RealOrVec T>
FOVEA_HD FOVEA_INLINE T cos(T x) {
#ifdef __CUDA_ARCH__
  return gpu::cos(x);
#else
  using namespace approximation;
  using S = Scalar<T>;
  using C = Constants<S>;
  T shifted = fma(x, T(S(0.31830988618379067)), T(S(0.5))) + T(C::round);
  T y = sin_reduced(x, (shifted - T(C::round)) - T(S(0.5)), shifted);
  return any_lane(abs(x) > T(S(greatest_reduced))) ? with_large_angles(x, y, true) : y;
#endif
}

}  // namespace fovea
