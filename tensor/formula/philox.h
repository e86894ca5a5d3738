/// Philox, a random number generator that is a function of a key and a counter, and the mask of dropout, which is
/// computed from its numbers.
///
/// Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3": Philox 4x32 with 10 rounds.
#pragma once
#include <cstdint>
#include <cstring>

#include "tensor/formula/target.h"

namespace fovea {

/// Four 32-bit words: a counter, or the random words computed from it. W is one word, or a SIMD vector of words.
template <class W>
struct PhiloxBlock {
  W word[4];
};

/// The upper and lower halves of a product of two words.
template <class W>
struct WideProduct {
  W high, low;
};
FOVEA_HD FOVEA_INLINE WideProduct<std::uint32_t> wide_product(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

/// Returns the four random words for a counter and a key.
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

/// The number of uniform numbers in a group. A group uses 16 Philox blocks: for i < 16, number i of the group is made
/// from the first two words of block i, and number 16 + i from the other two words of block i.
inline constexpr std::int64_t uniform_group = 32;

/// Returns the uniform number in [1, 2) that has 52 of the random bits of two words.
FOVEA_HD FOVEA_INLINE double uniform_number(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 12 | 0x3ff0000000000000U;
  double number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// The position where a stretch of random numbers begins. `seed` is the key of Philox. In its counter, `stream` is the
/// upper half and `offset`, which counts blocks, the lower half, so different streams never overlap.
struct RandomPosition {
  std::uint64_t seed = 0, offset = 0;
  std::uint64_t stream = 0;  ///< 0 for a Generator; never 0 inside a RandomScope: the two draw different numbers
};

/// Returns the block, four random words, that is `index` blocks after the position.
FOVEA_HD FOVEA_INLINE PhiloxBlock<std::uint32_t> philox(RandomPosition at, std::uint64_t index) {
  index += at.offset;
  return philox(
      PhiloxBlock<std::uint32_t>{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                  static_cast<std::uint32_t>(at.stream), static_cast<std::uint32_t>(at.stream >> 32)}},
      at.seed);
}

/// The mask of dropout, which says which elements are kept. It stores no mask, but computes it from random numbers.
/// Each element is decided by 16 random bits, so a Philox block of 128 bits decides 8 elements, and a group of 16
/// blocks decides 128. Element e of a group uses 16-bit part e / 16 of block e % 16. So neighbouring elements use
/// neighbouring blocks, which are computed in neighbouring SIMD lanes.
///
/// The elements of a tensor are numbered in row-major order. If a row length is given, every row begins with a new
/// group: element j of row i has number i · round_up(row_length, 128) + j. Then the mask of any part of a row can be
/// computed alone.
class DropoutMask {
 public:
  static constexpr int lanes = 16, group = 128;
  /// The default row length, which is longer than any tensor: all elements are in one row.
  static constexpr std::int64_t one_row = (std::int64_t{1} << 62);

  /// `probability` is the probability to drop an element. It is rounded to a multiple of 2^−16, and scale() is computed
  /// from the rounded value. Throws Error if it is not in [0, 1).
  DropoutMask(double probability, RandomPosition at, std::int64_t row_length = one_row);

  /// The factor 1 / (1 − probability) for kept elements, with which dropout does not change the expectation.
  FOVEA_HD double scale() const { return scale_; }
  /// An element is kept if its 16 random bits, as a number, are at least this threshold.
  std::uint32_t threshold() const { return threshold_; }
  RandomPosition position() const { return position_; }

  /// The mask of a part of a tensor [..., rows, row_length] with this mask: of the rows first ≤ r < first + count of
  /// each matrix.
  DropoutMask of_rows(std::int64_t rows, std::int64_t first, std::int64_t count) const {
    DropoutMask part = *this;
    part.whole_rows_ = rows;
    part.first_row_ = first;
    part.part_rows_ = count;
    return part;
  }

  std::int64_t row_length() const { return row_length_; }
  FOVEA_HD std::int64_t groups_in_row() const { return (row_length_ + group - 1) / group; }
  /// The number of groups of a tensor with `elements` elements.
  FOVEA_HD std::int64_t groups(std::int64_t elements) const {
    return elements / row_length_ * groups_in_row() + (elements % row_length_ + group - 1) / group;
  }
  /// The elements of a tensor that one group decides: [first, first + count) in row-major order, at most 128.
  struct Stretch {
    std::int64_t first, count;
  };
  /// Returns the elements that group `g` decides, in a tensor with `elements` elements.
  FOVEA_HD Stretch stretch(std::int64_t g, std::int64_t elements) const {
    const std::int64_t row = row_of(g), row_begin = row * row_length_;
    const std::int64_t first = row_begin + (g - row * groups_in_row()) * group;
    std::int64_t row_end = elements - row_begin < row_length_ ? elements : row_begin + row_length_;
    return {first, row_end - first < group ? row_end - first : group};
  }

  /// The number of group `g` in the whole tensor, if this is the mask of_rows() of a part; otherwise g.
  FOVEA_HD std::int64_t number_in_whole(std::int64_t g) const {
    std::int64_t skipped_rows = first_row_;
    if (whole_rows_ != part_rows_) skipped_rows += quotient(row_of(g), part_rows_) * (whole_rows_ - part_rows_);
    return g + skipped_rows * groups_in_row();
  }
  /// Returns the random words that decide elements lane + 16 k, k = 0 ... 7, of group `g`.
  FOVEA_HD PhiloxBlock<std::uint32_t> words(std::int64_t g, int lane) const {
    return philox(position_, static_cast<std::uint64_t>(lanes * number_in_whole(g) + lane));
  }
  /// Whether element 16 k + lane of a group is kept, where `words` is the result of words(g, lane).
  FOVEA_HD bool keeps(const PhiloxBlock<std::uint32_t>& words, int k) const {
    return ((words.word[k / 2] >> (k % 2 * 16)) & 0xffffU) >= threshold_;
  }
  /// Whether element `e`, counted in row-major order, is kept, for a mask of one row. A caller of many elements asks
  /// for words(), which decide eight.
  FOVEA_HD bool keeps(std::int64_t e) const {
    const int in_group = static_cast<int>(e % group);
    return threshold_ == 0 || keeps(words(e / group, in_group % lanes), in_group / lanes);
  }

 private:
  /// Returns a / b for numbers that are not negative. On a GPU, divisions of 32 bits take a fraction of the time of
  /// those of 64 bits.
  FOVEA_HD static std::int64_t quotient(std::int64_t a, std::int64_t b) {
    if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
    return a / b;
  }
  /// The row that group `g` belongs to. A mask of one row needs no division.
  FOVEA_HD std::int64_t row_of(std::int64_t g) const { return g < groups_in_row() ? 0 : quotient(g, groups_in_row()); }

  std::uint32_t threshold_;
  double scale_;
  RandomPosition position_;
  std::int64_t row_length_;
  std::int64_t whole_rows_ = 1, first_row_ = 0, part_rows_ = 1;
};

}  // namespace fovea
