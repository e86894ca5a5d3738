/// The position of a query-key pair, an argument of pointwise functors.
#pragma once

namespace fovea {

/// The positions of the query and the key at which a pointwise functor is evaluated, in tokens, counted from 0.
template <class T>
struct Position {
  T query, key;
};

}  // namespace fovea
