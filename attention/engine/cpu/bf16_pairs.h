/// Pairs of bf16 numbers in the lanes of a SIMD vector: the operands of the processor's bf16 dot products (AVX-512
/// BF16). Processors without these instructions compute the same products in f32.
#pragma once
#include <cstdint>

#include "tensor/cpu/simd.h"
#include "tensor/dtype.h"

namespace fovea {

/// Two bf16 numbers that are neighbours along the inner dimension of a product; the first is in the lower 16 bits.
using Bf16Pair = std::uint32_t;

/// Returns the pair (first_i, second_i) in each lane i, rounded to bf16 (to nearest even).
FOVEA_INLINE Vec<Bf16Pair> bf16_pairs(Vec<float> first, Vec<float> second) {
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
  typedef std::uint16_t Halves __attribute__((vector_size(vector_bytes)));
  const Halves halves = (Halves)_mm512_cvtne2ps_pbh(second.native, first.native);
  return [&]<int... lane>(std::integer_sequence<int, lane...>) {
    return Vec<Bf16Pair>((Vec<Bf16Pair>::Native)__builtin_shufflevector(halves, halves, (lane / 2 + lane % 2 * 16)...));
  }
  (std::make_integer_sequence<int, 32>{});
#else
  using Bits = Vec<Bf16Pair>::Native;
  auto rounded = [](Vec<float> x) {
    const Bits bits = (Bits)x.native;
    const Bits nan = (Bits)(x != x).bits;
    return (nan & (bits | 0x400000u)) | (~nan & (bits + 0x7fffu + ((bits >> 16) & 1u)));
  };
  return Vec<Bf16Pair>((rounded(first) >> 16) | (rounded(second) & 0xffff0000u));
#endif
}

/// Rounds 2 · lanes numbers x to bf16 and packs them into pairs of neighbours: (x₀, x₁), (x₂, x₃), ... The first half
/// of the numbers is in `low`, the second half in `high`.
FOVEA_INLINE Vec<Bf16Pair> neighbours_as_bf16_pairs(Vec<float> low, Vec<float> high) {
#if defined(__AVX512BF16__)
  return Vec<Bf16Pair>((Vec<Bf16Pair>::Native)_mm512_cvtne2ps_pbh(high.native, low.native));
#else
  return [&]<int... lane>(std::integer_sequence<int, lane...>) {
    return bf16_pairs(Vec<float>(__builtin_shufflevector(low.native, high.native, (2 * lane)...)),
                      Vec<float>(__builtin_shufflevector(low.native, high.native, (2 * lane + 1)...)));
  }
  (std::make_integer_sequence<int, Vec<float>::lanes>{});
#endif
}

/// Returns sum + a₁ b₁ + a₂ b₂, lane by lane: the lane of a is the pair (a₁, a₂), that of b the pair (b₁, b₂).
FOVEA_INLINE Vec<float> add_product(Vec<float> sum, Vec<Bf16Pair> a, Vec<Bf16Pair> b) {
#if defined(__AVX512BF16__)
  return Vec<float>((Vec<float>::Native)_mm512_dpbf16_ps(sum.native, (__m512bh)a.native, (__m512bh)b.native));
#else
  auto first = [](Vec<Bf16Pair> pair) { return Vec<float>((Vec<float>::Native)(pair.native << 16)); };
  auto second = [](Vec<Bf16Pair> pair) { return Vec<float>((Vec<float>::Native)(pair.native & 0xffff0000u)); };
  return fma(second(a), second(b), fma(first(a), first(b), sum));
#endif
}

}  // namespace fovea
