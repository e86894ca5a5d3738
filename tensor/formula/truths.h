/// Element-wise comparisons, logic and selection (`where`), used on every device. Inputs may have any element type,
/// except that logic takes bool, and the condition of `where` is bool or u8, of which every number but 0 is true.
///
/// To add one, write the struct, add its name to TruthFormulas, and write the public function (tensor/comparison.h).
#pragma once
#include <cstdint>
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/formula/list.h"

namespace fovea::formula {

struct Less {
  static constexpr const char* name = "less";
  static constexpr int inputs = 2;
  FOVEA_HD bool operator()(auto x, auto y) const { return x < y; }
};
struct LessEqual {
  static constexpr const char* name = "less_equal";
  static constexpr int inputs = 2;
  FOVEA_HD bool operator()(auto x, auto y) const { return x <= y; }
};
struct Equal {
  static constexpr const char* name = "equal";
  static constexpr int inputs = 2;
  FOVEA_HD bool operator()(auto x, auto y) const { return x == y; }
};
struct Both {
  static constexpr const char* name = "logical_and";
  static constexpr int inputs = 2;
  FOVEA_HD bool operator()(bool x, bool y) const { return x & y; }
};
struct Either {
  static constexpr const char* name = "logical_or";
  static constexpr int inputs = 2;
  FOVEA_HD bool operator()(bool x, bool y) const { return x | y; }
};
struct Negation {
  static constexpr const char* name = "logical_not";
  static constexpr int inputs = 1;
  FOVEA_HD bool operator()(bool x) const { return !x; }
};
struct Choice {
  static constexpr const char* name = "where";
  static constexpr int inputs = 3;
  template <class T>
  FOVEA_HD T operator()(std::uint8_t condition, T x, T y) const {
    return condition ? x : y;
  }
};

using TruthFormulas = FunctorList<Less, LessEqual, Equal, Both, Either, Negation, Choice>;

/// Calls body(Type<T>{}) with an unsigned integer of the size of `dtype`'s elements: enough to move them.
template <class Body>
void visit_size(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 1:
      return body(Type<std::uint8_t>{});
    case 2:
      return body(Type<std::uint16_t>{});
    case 4:
      return body(Type<std::uint32_t>{});
    default:
      return body(Type<std::uint64_t>{});
  }
}

/// Calls body(Type<Result>{}, Type<Input>{}...) with the types in which the result and the inputs of a formula are
/// stored, if the element type of its last input is `dtype`.
template <class F, class Body>
void visit_types(const F&, DType dtype, const Body& body) {
  constexpr Type<bool> truth;
  if constexpr (std::is_same_v<F, Negation>)
    body(truth, truth);
  else if constexpr (std::is_same_v<F, Both> || std::is_same_v<F, Either>)
    body(truth, truth, truth);
  else if constexpr (std::is_same_v<F, Choice>)
    visit_size(dtype, [&](auto type) { body(type, Type<std::uint8_t>{}, type, type); });
  else
    visit(dtype, [&](auto type) { body(truth, type, type); });
}

}  // namespace fovea::formula
