/// Element-wise functors in the forms from which devices make their kernels.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <typeinfo>

#include "tensor/formula/expression.h"

namespace fovea {

namespace cpu {

/// A function that applies the functor at `f` to one row of `count` elements. `operand` holds the addresses of the
/// results, then of the inputs; `step` holds the distance between neighbouring elements of each.
template <class T>
using RowFunction = void (*)(const void* f, T* const* operand, const std::int64_t* step, std::int64_t count);

}  // namespace cpu

/// The largest number of operands, results and inputs together, that a map may have.
inline constexpr int most_map_operands = 16;

/// The forms of one functor type. Each form takes the address of a functor of this type.
struct MapFormula {
  const char* name;
  const std::type_info* type;  ///< of the functor
  /// The size of a functor whose bytes say what it computes, so that what was made for one serves all with equal bytes:
  /// 0 for one without members. −1 for functors that cannot be copied byte by byte. A functor must not read memory that
  /// it points to and that may change, because kernels run later.
  std::int64_t bytes;
  int results, inputs;
  std::int64_t cost;  ///< the work for one element, in additions
  /// The functor as the C++ compiler compiled it, for rows in memory that the CPU reads.
  cpu::RowFunction<float> f32;
  cpu::RowFunction<double> f64;
  /// The functor's operations, from which text for another compiler is made. Null for the formulas of the library's
  /// lists, because every device has kernels of them.
  Expression (*expression)(const void* f) = nullptr;
  /// Copies the functor, for kernels that run later. Null as `expression` is.
  std::shared_ptr<const void> (*copy)(const void* f) = nullptr;

  template <class T>
  cpu::RowFunction<T> row() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else
      return f64;
  }
};

}  // namespace fovea
