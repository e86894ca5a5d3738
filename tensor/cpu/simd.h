/// Explicit SIMD: Vec<T> is one register of the machine with numbers of type T in its lanes, and is used like one
/// number.
///
/// Written on the compilers' vector extensions: GCC 12 does not auto-vectorise code on structs of dual numbers, and
/// <experimental/simd> costs two seconds in every file that includes it.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "tensor/formula/number.h"

namespace fovea {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

/// The compiler's vector type for T. The typedef is inside a struct because GCC 12, in a template, mistakes a vector
/// typedef of T for T.
template <class T>
struct NativeVector {
  typedef T Type __attribute__((vector_size(vector_bytes)));
  /// The vector type for memory that is aligned for a T only.
  typedef T Unaligned __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

/// A truth value for each lane: all bits of the lane are 1 or all are 0.
template <class T>
struct LaneMask {
  using Native = typename NativeVector<IntegerOf<T>>::Type;
  Native bits;

  friend FOVEA_INLINE LaneMask operator&(LaneMask a, LaneMask b) { return {a.bits & b.bits}; }
  friend FOVEA_INLINE LaneMask operator|(LaneMask a, LaneMask b) { return {a.bits | b.bits}; }
  friend FOVEA_INLINE LaneMask operator!(LaneMask a) { return {~a.bits}; }
};

template <class T>
struct Vec {
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
  using Native = typename NativeVector<T>::Type;
  using Bits = typename NativeVector<std::make_unsigned_t<IntegerOf<T>>>::Type;
  Native native;

  Vec() = default;
  FOVEA_INLINE Vec(T value) : native(value - Native{}) {}  // broadcast
  FOVEA_INLINE explicit Vec(Native value) : native(value) {}

  static FOVEA_INLINE Vec load(const T* from) {
    return Vec(Native(*reinterpret_cast<const typename NativeVector<T>::Unaligned*>(from)));
  }
  FOVEA_INLINE void store(T* to) const { *reinterpret_cast<typename NativeVector<T>::Unaligned*>(to) = native; }
  /// Loads the first `count` elements, `count` < lanes; the other lanes become 0.
  static FOVEA_INLINE Vec load_partial(const T* from, int count);
  FOVEA_INLINE void store_partial(T* to, int count) const;
  FOVEA_INLINE T operator[](int lane) const { return native[lane]; }

  friend FOVEA_INLINE Vec operator+(Vec a, Vec b) { return Vec(a.native + b.native); }
  friend FOVEA_INLINE Vec operator-(Vec a, Vec b) { return Vec(a.native - b.native); }
  friend FOVEA_INLINE Vec operator*(Vec a, Vec b) { return Vec(a.native * b.native); }
  friend FOVEA_INLINE Vec operator/(Vec a, Vec b) { return Vec(a.native / b.native); }
  friend FOVEA_INLINE Vec operator-(Vec a) { return Vec(-a.native); }
  FOVEA_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  FOVEA_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  FOVEA_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
  friend FOVEA_INLINE LaneMask<T> operator<(Vec a, Vec b) { return {a.native < b.native}; }
  friend FOVEA_INLINE LaneMask<T> operator<=(Vec a, Vec b) { return {a.native <= b.native}; }
  friend FOVEA_INLINE LaneMask<T> operator>(Vec a, Vec b) { return {a.native > b.native}; }
  friend FOVEA_INLINE LaneMask<T> operator>=(Vec a, Vec b) { return {a.native >= b.native}; }
  friend FOVEA_INLINE LaneMask<T> operator==(Vec a, Vec b) { return {a.native == b.native}; }
  friend FOVEA_INLINE LaneMask<T> operator!=(Vec a, Vec b) { return {a.native != b.native}; }
};

template <class T>
struct ScalarOf<Vec<T>> {
  using type = T;
};

/// Returns `yes` in the lanes where the condition is true and `no` in the others; both are evaluated.
template <class T>
FOVEA_INLINE Vec<T> select(LaneMask<T> condition, Vec<T> yes, Vec<T> no) {
  return Vec<T>(condition.bits ? yes.native : no.native);
}
/// Returns 0, 1, 2, ...: each lane holds its own number.
template <class T>
FOVEA_INLINE Vec<T> lane_numbers() {
  typename Vec<T>::Native number{};
  for (int lane = 0; lane < Vec<T>::lanes; ++lane) number[lane] = static_cast<T>(lane);
  return Vec<T>(number);
}

// Functions that the compilers' vector extensions have no operator for.
#if defined(__AVX512F__)
template <class T>
FOVEA_INLINE bool any_lane(LaneMask<T> mask) {
  return _mm512_test_epi32_mask((__m512i)mask.bits, (__m512i)mask.bits) != 0;
}
FOVEA_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return Vec<float>(_mm512_fmadd_ps(a.native, b.native, c.native));
}
FOVEA_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return Vec<double>(_mm512_fmadd_pd(a.native, b.native, c.native));
}
// The masked intrinsics, with all lanes set: the plain ones give warnings inside GCC 12's own headers.
FOVEA_INLINE Vec<float> square_root(Vec<float> x) { return Vec<float>(_mm512_maskz_sqrt_ps(0xffff, x.native)); }
FOVEA_INLINE Vec<double> square_root(Vec<double> x) { return Vec<double>(_mm512_maskz_sqrt_pd(0xff, x.native)); }
FOVEA_INLINE Vec<float> round_down(Vec<float> x) {
  return Vec<float>(_mm512_maskz_roundscale_ps(0xffff, x.native, _MM_FROUND_FLOOR));
}
FOVEA_INLINE Vec<double> round_down(Vec<double> x) {
  return Vec<double>(_mm512_maskz_roundscale_pd(0xff, x.native, _MM_FROUND_FLOOR));
}
#elif defined(__AVX__) && defined(__FMA__)
template <class T>
FOVEA_INLINE bool any_lane(LaneMask<T> mask) {
  return !_mm256_testz_si256((__m256i)mask.bits, (__m256i)mask.bits);
}
FOVEA_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return Vec<float>(_mm256_fmadd_ps(a.native, b.native, c.native));
}
FOVEA_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return Vec<double>(_mm256_fmadd_pd(a.native, b.native, c.native));
}
FOVEA_INLINE Vec<float> square_root(Vec<float> x) { return Vec<float>(_mm256_sqrt_ps(x.native)); }
FOVEA_INLINE Vec<double> square_root(Vec<double> x) { return Vec<double>(_mm256_sqrt_pd(x.native)); }
FOVEA_INLINE Vec<float> round_down(Vec<float> x) { return Vec<float>(_mm256_floor_ps(x.native)); }
FOVEA_INLINE Vec<double> round_down(Vec<double> x) { return Vec<double>(_mm256_floor_pd(x.native)); }
#elif defined(__ARM_NEON)
template <class T>
FOVEA_INLINE bool any_lane(LaneMask<T> mask) {
  return vmaxvq_u32((uint32x4_t)mask.bits) != 0;
}
FOVEA_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return Vec<float>(vfmaq_f32(c.native, a.native, b.native));
}
FOVEA_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return Vec<double>(vfmaq_f64(c.native, a.native, b.native));
}
FOVEA_INLINE Vec<float> square_root(Vec<float> x) { return Vec<float>(vsqrtq_f32(x.native)); }
FOVEA_INLINE Vec<double> square_root(Vec<double> x) { return Vec<double>(vsqrtq_f64(x.native)); }
FOVEA_INLINE Vec<float> round_down(Vec<float> x) { return Vec<float>(vrndmq_f32(x.native)); }
FOVEA_INLINE Vec<double> round_down(Vec<double> x) { return Vec<double>(vrndmq_f64(x.native)); }
#else
#error "fovea needs AVX2 and FMA on x86-64 (-march=x86-64-v3), or NEON on arm64"
#endif

#ifndef __CUDACC__  // nvcc does not expand the parameter pack in the builtin; CUDA's host code needs no lanes
/// Returns v with its lanes exchanged: lane i holds v's lane i xor `distance`.
template <int distance, class T, int... lane>
FOVEA_INLINE Vec<T> swapped(Vec<T> v, std::integer_sequence<int, lane...>) {
  return Vec<T>(__builtin_shufflevector(v.native, v.native, (lane ^ distance)...));
}
template <int distance, class T>
FOVEA_INLINE Vec<T> swapped(Vec<T> v) {
  return swapped<distance>(v, std::make_integer_sequence<int, Vec<T>::lanes>{});
}

/// Returns v moved up by `distance` lanes: lane i holds v's lane i − distance, or 0 if there is no such lane.
template <int distance, class T, int... lane>
FOVEA_INLINE Vec<T> moved_up(Vec<T> v, std::integer_sequence<int, lane...>) {
  return Vec<T>(
      __builtin_shufflevector(v.native, Vec<T>(T(0)).native, (lane < distance ? Vec<T>::lanes : lane - distance)...));
}
/// Returns v moved down by `distance` lanes: lane i holds v's lane i + distance, or 0 if there is no such lane.
template <int distance, class T, int... lane>
FOVEA_INLINE Vec<T> moved_down(Vec<T> v, std::integer_sequence<int, lane...>) {
  return Vec<T>(__builtin_shufflevector(v.native, Vec<T>(T(0)).native, (lane + distance)...));
}

/// Returns the prefix sums of v: lane i holds the sum of v's lanes 0 ... i.
template <int distance = 1, class T>
FOVEA_INLINE Vec<T> prefix_sums(Vec<T> v) {
  v += moved_up<distance>(v, std::make_integer_sequence<int, Vec<T>::lanes>{});
  if constexpr (2 * distance < Vec<T>::lanes) return prefix_sums<2 * distance>(v);
  return v;
}
/// Returns the suffix sums of v: lane i holds the sum of v's lanes i ... last.
template <int distance = 1, class T>
FOVEA_INLINE Vec<T> suffix_sums(Vec<T> v) {
  v += moved_down<distance>(v, std::make_integer_sequence<int, Vec<T>::lanes>{});
  if constexpr (2 * distance < Vec<T>::lanes) return suffix_sums<2 * distance>(v);
  return v;
}

/// Returns the sum of all lanes. First adds the upper half of the vector to the lower half, and so on by halves.
template <int width = 0, class T>
FOVEA_INLINE T horizontal_sum(Vec<T> v) {
  constexpr int distance = width ? width : Vec<T>::lanes / 2;
  v += swapped<distance>(v);
  if constexpr (distance > 1)
    return horizontal_sum<distance / 2>(v);
  else
    return v[0];
}

/// Returns the greatest lane.
template <int width = 0, class T>
FOVEA_INLINE T horizontal_max(Vec<T> v) {
  constexpr int distance = width ? width : Vec<T>::lanes / 2;
  Vec<T> other = swapped<distance>(v);
  v = select(v < other, other, v);
  if constexpr (distance > 1)
    return horizontal_max<distance / 2>(v);
  else
    return v[0];
}

#endif

template <class T>
FOVEA_INLINE Vec<T> Vec<T>::load_partial(const T* from, int count) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>)
    return Vec((Native)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from));
  else if constexpr (std::is_same_v<T, double>)
    return Vec((Native)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from));
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<T, float>) {
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return Vec((Native)_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane)));
  } else if constexpr (std::is_same_v<T, double>) {
    __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return Vec((Native)_mm256_maskload_pd(from, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), lane)));
  }
#endif
  T part[lanes] = {};
  for (int lane = 0; lane < count; ++lane) part[lane] = from[lane];
  return load(part);
}

template <class T>
FOVEA_INLINE void Vec<T>::store_partial(T* to, int count) const {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)native);
    return;
  } else if constexpr (std::is_same_v<T, double>) {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1), (__m512d)native);
    return;
  }
#elif defined(__AVX2__)
  // Stored in pieces of 4, 2 and 1 elements: a masked store is microcode, and slow, on AMD processors.
  if constexpr (std::is_same_v<T, float>) {
    __m128 part = _mm256_castps256_ps128((__m256)native);
    if (count & 4) {
      _mm_storeu_ps(to, part);
      part = _mm256_extractf128_ps((__m256)native, 1);
      to += 4;
    }
    if (count & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
      part = _mm_movehl_ps(part, part);
      to += 2;
    }
    if (count & 1) _mm_store_ss(to, part);
    return;
  } else if constexpr (std::is_same_v<T, double>) {
    __m128d part = _mm256_castpd256_pd128((__m256d)native);
    if (count & 2) {
      _mm_storeu_pd(to, part);
      part = _mm256_extractf128_pd((__m256d)native, 1);
      to += 2;
    }
    if (count & 1) _mm_store_sd(to, part);
    return;
  }
#endif
  T part[lanes];
  store(part);
  for (int lane = 0; lane < count; ++lane) to[lane] = part[lane];
}

}  // namespace fovea
