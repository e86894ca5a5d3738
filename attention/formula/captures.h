/// Captures: the tensors that a pointwise functor reads besides the logit (or weight) and the position.
///
/// Letters of shapes: B sentences, H heads of the term, I queries, J keys. Every shape may be broadcast.
#pragma once
#include <cstdint>

#include "autograd/variable.h"

namespace fovea {

/// What the entries of a capture belong to.
///   head, query, key, pair, offset:  numbers; PerHead, PerQuery, ... say which shapes they have
///   query_vector, key_vector:        a vector for each query or key, [B, H, I, n] or [B, H, J, n]
///   whole:                           anything that does not depend on queries and keys, such as a parameter
enum class Per { head, query, key, pair, offset, query_vector, key_vector, whole };

/// A capture as data.
struct Capture {
  Per per;
  Variable value;
  std::int64_t clip = 0;  ///< of Per::offset
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

/// A table over the relative position, [B, H, I, 2 clip + 1], read at clip(j − i, −clip, clip) + clip. If one table
/// serves all queries, I is 1 or, for a tensor [2 clip + 1], left out.
struct PerOffset {
  static constexpr Per per = Per::offset;
  Variable value;
  std::int64_t clip;  ///< in tokens, at least 0
  operator Capture() const { return {per, value, clip}; }
};

/// Whether a row of pairs reads one number of such a capture for each key, and not one number for the whole row.
constexpr bool is_per_key(Per per) { return per != Per::head && per != Per::query; }

}  // namespace fovea
