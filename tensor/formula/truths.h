/// Comparisons, logic and choice, element by element, for every device and type.
#pragma once
#include "tensor/formula/target.h"

namespace fovea {

enum class Comparison { less, less_equal, equal };
enum class Logic { both, either, negation };  ///< the negation is of the first operand

namespace formula {

struct Less {
  template <class T>
  FOVEA_HD bool operator()(const T& x, const T& y) const {
    return x < y;
  }
};
struct LessEqual {
  template <class T>
  FOVEA_HD bool operator()(const T& x, const T& y) const {
    return x <= y;
  }
};
struct Equal {
  template <class T>
  FOVEA_HD bool operator()(const T& x, const T& y) const {
    return x == y;
  }
};
struct Both {
  FOVEA_HD bool operator()(bool x, bool y) const { return x & y; }
};
struct Either {
  FOVEA_HD bool operator()(bool x, bool y) const { return x | y; }
};
struct Negation {
  FOVEA_HD bool operator()(bool x, bool) const { return !x; }
};

/// Calls body with the functor of a comparison, or of a logical operation.
template <class Body>
void visit_functor(Comparison comparison, const Body& body) {
  if (comparison == Comparison::less) return body(Less{});
  if (comparison == Comparison::less_equal) return body(LessEqual{});
  body(Equal{});
}
template <class Body>
void visit_functor(Logic logic, const Body& body) {
  if (logic == Logic::both) return body(Both{});
  if (logic == Logic::either) return body(Either{});
  body(Negation{});
}

}  // namespace formula

}  // namespace fovea
