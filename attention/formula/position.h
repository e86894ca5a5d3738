/// The position of a pair of a query and a key, which pointwise functors read.
#pragma once

namespace fovea {

/// The pair at which a pointwise functor is evaluated. Positions are in tokens, counted from 0.
template <class T>
struct Position {
  T query, key;
};

}  // namespace fovea
