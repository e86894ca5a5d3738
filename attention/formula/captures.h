/// Captures: the tensors that a term of a plan reads. A pointwise functor gets one number of each capture, besides the
/// logit (or weight) and the position.
///
/// Letters of shapes: B sentences, H heads of the term, I queries, J keys. Any dimension may be 1, and leading ones may
/// be absent: shapes broadcast.
#pragma once
#include <cstdint>

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

/// One number for each head, [H].
struct PerHead {
  static constexpr Per per = Per::head;
  Variable value;
  operator Capture() const { return {per, value}; }
};

/// One number for each query, [B, H, I].
struct PerQuery {
  static constexpr Per per = Per::query;
  Variable value;
  operator Capture() const { return {per, value}; }
};

/// One number for each key, [B, H, J].
struct PerKey {
  static constexpr Per per = Per::key;
  Variable value;
  operator Capture() const { return {per, value}; }
};

/// One number for each pair, [B, H, I, J].
struct PerPair {
  static constexpr Per per = Per::pair;
  Variable value;
  operator Capture() const { return {per, value}; }
};

/// A table over the relative position, [B, H, I, 2 clip + 1]. The pair (i, j) reads entry clip(j − i, −clip, clip) +
/// clip. If one table serves all queries, dimension I is 1, or the tensor is [2 clip + 1].
struct PerOffset {
  static constexpr Per per = Per::offset;
  Variable value;
  std::int64_t clip;  ///< in tokens, at least 0
  operator Capture() const { return {per, value, clip}; }
};

/// Whether the pairs of one query read a number for each key, [J], rather than one number for the whole row.
constexpr bool is_per_key(Per per) { return per != Per::head && per != Per::query; }

}  // namespace fovea
