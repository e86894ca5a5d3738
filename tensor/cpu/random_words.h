/// Philox, the random number generator of tensor/formula/philox.h, on the CPU: computes sixteen blocks at a time with
/// SIMD.
#pragma once
#include <cstring>

#include "tensor/cpu/simd.h"
#include "tensor/formula/math.h"
#include "tensor/formula/philox.h"

namespace fovea::cpu {

/// 32-bit words in the lower halves of 64-bit lanes, as the machine's multiplication of 32-bit numbers to 64-bit
/// products takes them. The upper halves are ignored.
struct WideWords {
  static constexpr int lanes = vector_bytes / 8;
  using Native = NativeVector<std::uint64_t>::Type;
  Native native;

  WideWords() = default;
  FOVEA_INLINE explicit WideWords(Native native) : native(native) {}
  FOVEA_INLINE explicit WideWords(std::uint32_t word) : native(word + Native{}) {}
  friend FOVEA_INLINE WideWords operator^(WideWords a, WideWords b) { return WideWords(a.native ^ b.native); }
};

FOVEA_INLINE WideProduct<WideWords> wide_product(WideWords a, std::uint32_t b) {
#if defined(__AVX512F__)
  auto product = (WideWords::Native)_mm512_maskz_mul_epu32(0xff, (__m512i)a.native, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  auto product = (WideWords::Native)_mm256_mul_epu32((__m256i)a.native, _mm256_set1_epi64x(b));
#else
  auto product = (a.native & 0xffffffffU) * b;
#endif
  return {WideWords(product >> 32), WideWords(product)};
}

/// Sixteen consecutive Philox blocks: word[w][i] is word w of block i.
struct alignas(64) SixteenBlocks {
  std::uint32_t word[4][16];
};

/// Returns blocks index ... index + 15, counted from the position `at`.
FOVEA_INLINE SixteenBlocks sixteen_blocks(RandomPosition at, std::uint64_t index) {
  constexpr int lanes = WideWords::lanes;
  SixteenBlocks out;
  index += at.offset;
  const WideWords stream_low(static_cast<std::uint32_t>(at.stream)),
      stream_high(static_cast<std::uint32_t>(at.stream >> 32));
  for (int first = 0; first < 16; first += 2 * lanes) {
    // Even-numbered and odd-numbered blocks are computed in separate vectors. Each 64-bit lane then joins a word of an
    // even block with that of the next odd block, so the words are in order in memory.
    WideWords::Native even, odd;
    for (int lane = 0; lane < lanes; ++lane)
      even[lane] = index + static_cast<std::uint64_t>(first + 2 * lane), odd[lane] = even[lane] + 1;
    auto a = philox(PhiloxBlock<WideWords>{{WideWords(even), WideWords(even >> 32), stream_low, stream_high}}, at.seed);
    auto b = philox(PhiloxBlock<WideWords>{{WideWords(odd), WideWords(odd >> 32), stream_low, stream_high}}, at.seed);
    for (int w = 0; w < 4; ++w) {
      WideWords::Native both = (a.word[w].native & 0xffffffffU) | (b.word[w].native << 32);
      std::memcpy(&out.word[w][first], &both, sizeof both);
    }
  }
  return out;
}

/// Uniform numbers in [1, 2) with 52 random bits each, made from a group of sixteen blocks: first[i] from the first two
/// words of block i, and second[i] from the other two.
struct UniformPairs {
  double first[16], second[16];
};
inline UniformPairs uniform_pairs(RandomPosition at, std::int64_t group) {
  SixteenBlocks blocks = sixteen_blocks(at, static_cast<std::uint64_t>(16 * group));
  UniformPairs out;
  for (int lane = 0; lane < 16; ++lane) {
    out.first[lane] = uniform_number(blocks.word[0][lane], blocks.word[1][lane]);
    out.second[lane] = uniform_number(blocks.word[2][lane], blocks.word[3][lane]);
  }
  return out;
}

}  // namespace fovea::cpu
