/// Philox: random numbers as a function of a key and a counter, and dropout's mask made of them.
///
/// Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3": Philox 4x32 with 10 rounds.
#pragma once
#include <cstdint>

#include "tensor/formula/target.h"

namespace fovea {

/// Four words: a counter, or the random numbers made of it. W is one 32-bit word or lanes of them.
template <class W>
struct PhiloxBlock {
  W word[4];
};

template <class W>
struct WideProduct {
  W high, low;
};
FOVEA_HD FOVEA_INLINE WideProduct<std::uint32_t> wide_product(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

template <class W>
FOVEA_HD FOVEA_INLINE PhiloxBlock<W> philox(PhiloxBlock<W> counter, std::uint64_t key) {
  auto key_low = static_cast<std::uint32_t>(key), key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    WideProduct<W> even = wide_product(counter.word[0], 0xD2511F53U), odd = wide_product(counter.word[2], 0xCD9E8D57U);
    counter = {{odd.high ^ counter.word[1] ^ W(key_low), odd.low, even.high ^ counter.word[3] ^ W(key_high), even.low}};
    key_low += 0x9E3779B9U;  // the golden ratio and √3 − 1, in units of 2^−32
    key_high += 0xBB67AE85U;
  }
  return counter;
}

/// The four words of block `index` of the seed's sequence.
FOVEA_HD FOVEA_INLINE PhiloxBlock<std::uint32_t> philox(std::uint64_t seed, std::uint64_t index) {
  return philox(
      PhiloxBlock<std::uint32_t>{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}},
      seed);
}

/// Uniform numbers go in groups of 32, sixteen blocks to a group: number i < 16 of a group is made of the first two
/// words of block i, number 16 + i of the other two.
inline constexpr std::int64_t uniform_group = 32;

/// Where a stretch of random numbers begins. The seed is Philox's key; `stream` is the upper half of its counter and
/// `offset`, which counts blocks, the lower half. Different streams never overlap.
struct RandomPosition {
  std::uint64_t seed = 0, offset = 0;
  std::uint64_t stream = 0;  ///< 0 for a Generator; for a call inside a RandomScope a number that is never 0
};

/// Block `index` after the position.
FOVEA_HD FOVEA_INLINE PhiloxBlock<std::uint32_t> philox(RandomPosition at, std::uint64_t index) {
  index += at.offset;
  return philox(
      PhiloxBlock<std::uint32_t>{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                  static_cast<std::uint32_t>(at.stream), static_cast<std::uint32_t>(at.stream >> 32)}},
      at.seed);
}

/// The mask of dropout: it says which elements are kept. Each element is decided by 16 random bits, so a Philox block
/// of 128 bits decides eight elements, and a group of 16 blocks decides 128. Element e of a group uses block e % 16
/// and, within that block, the 16 bits number e / 16: neighbouring elements use neighbouring blocks, which SIMD lanes
/// hold.
///
/// A tensor's elements are numbered in row-major order, and in rows if a row length is given: then every row begins a
/// group, so element j of row i has number i · round_up(row_length, 128) + j, and a part of a row can be drawn without
/// the rest of the row.
class DropoutMask {
 public:
  static constexpr int lanes = 16, group = 128;
  /// The row length of a tensor without rows: longer than any tensor.
  static constexpr std::int64_t one_row = (std::int64_t{1} << 62);

  /// The probability is rounded to a multiple of 2^−16, and the scale is exact for that. Throws outside of [0, 1).
  DropoutMask(double probability, RandomPosition at, std::int64_t row_length = one_row);

  /// 1 / (1 − probability): what keeps the expectation.
  double scale() const { return scale_; }
  std::uint32_t threshold() const { return threshold_; }
  RandomPosition position() const { return position_; }

  std::int64_t row_length() const { return row_length_; }
  FOVEA_HD std::int64_t groups_in_row() const { return (row_length_ + group - 1) / group; }
  /// The number of groups of a tensor with so many elements.
  FOVEA_HD std::int64_t groups(std::int64_t elements) const {
    return elements / row_length_ * groups_in_row() + (elements % row_length_ + group - 1) / group;
  }
  /// The elements of a tensor, in row-major order, that a group decides over: [first, first + count), at most 128.
  struct Stretch {
    std::int64_t first, count;
  };
  FOVEA_HD Stretch stretch(std::int64_t g, std::int64_t elements) const {
    std::int64_t row_begin = g / groups_in_row() * row_length_, first = row_begin + g % groups_in_row() * group;
    std::int64_t row_end = elements - row_begin < row_length_ ? elements : row_begin + row_length_;
    return {first, row_end - first < group ? row_end - first : group};
  }

  /// The words that decide over elements lane + 16 k of group g, k = 0 ... 7.
  FOVEA_HD PhiloxBlock<std::uint32_t> words(std::int64_t g, int lane) const {
    return philox(position_, static_cast<std::uint64_t>(lanes * g + lane));
  }
  /// Whether element 16 k + lane of a group is kept.
  FOVEA_HD bool keeps(const PhiloxBlock<std::uint32_t>& words, int k) const {
    return ((words.word[k / 2] >> (k % 2 * 16)) & 0xffffU) >= threshold_;
  }

 private:
  std::uint32_t threshold_;
  double scale_;
  RandomPosition position_;
  std::int64_t row_length_;
};

}  // namespace fovea
