/// Captures: the tensors that a term of a plan reads. A pointwise functor gets one number of each capture, besides the
/// logit (or weight) and the position.
///
/// Letters of shapes: B sentences, H heads of the term, I queries, J keys. Any dimension may be 1, and leading ones may
/// be absent: shapes broadcast.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

/// Which index the entries of a capture depend on.
///   head, query, key, pair, offset:  one number each, in the shapes of PerHead, PerQuery, PerKey, PerPair, PerOffset
///   query_vector, key_vector:        a vector of n numbers for each query or key, [B, H, I, n] or [B, H, J, n]
///   whole:                           a tensor that does not depend on queries and keys, such as a parameter
enum class Per { head, query, key, pair, offset, query_vector, key_vector, whole };

/// A capture: a tensor and how its entries are indexed.
struct Capture {
  Per per;
  Variable value;
  std::int64_t clip = 0;  ///< with Per::offset, the largest distance with an entry of its own; otherwise 0
};

/// A capture of one number for each index of this kind.
template <Per kind>
struct NumberCapture {
  static constexpr Per per = kind;
  Variable value;
  operator Capture() const { return {per, value}; }
};
using PerHead = NumberCapture<Per::head>;    ///< [H]
using PerQuery = NumberCapture<Per::query>;  ///< [B, H, I]
using PerKey = NumberCapture<Per::key>;      ///< [B, H, J]
using PerPair = NumberCapture<Per::pair>;    ///< [B, H, I, J]

/// A table over the relative position, [B, H, I, 2 clip + 1]. The pair (i, j) reads entry clip(j − i, −clip, clip) +
/// clip. If one table serves all queries, dimension I is 1, or the tensor is [2 clip + 1].
struct PerOffset {
  static constexpr Per per = Per::offset;
  Variable value;
  std::int64_t clip;  ///< in tokens, at least 0
  operator Capture() const { return {per, value, clip}; }
};

/// The variables of captures, in their order: what a term that is written by hand reads.
class Captured {
 public:
  Captured(const std::vector<Variable>& values) : values_(values) {}
  std::size_t size() const { return values_.size(); }
  /// Throws Error if there is no such capture.
  const Variable& operator[](std::size_t index) const {
    require(index < values_.size(), "attention: a term reads captured[{}], and the number of its captures is {}", index,
            values_.size());
    return values_[index];
  }

 private:
  std::span<const Variable> values_;
};

/// The variables of captures, in their order.
inline std::vector<Variable> values_of(const std::vector<Capture>& captures) {
  std::vector<Variable> values;
  for (const Capture& capture : captures) values.push_back(capture.value);
  return values;
}

/// Whether the pairs of one query read a number for each key, [J], rather than one number for the whole row.
constexpr bool is_per_key(Per per) { return per != Per::head && per != Per::query; }

}  // namespace fovea
