/// Row formulas: computations on the rows of tensors, where a row is the last dimension, such as softmax and layer
/// normalisation. There is one struct for each, used on every device, in the header of its operation.
///
/// A formula is a function of a `Row`. Each device has its own Row class, which walks the elements of a row: in SIMD
/// vectors on the CPU, in threads on the GPU. Below, `at` is a position in the row (or, on the CPU, the positions of
/// one vector), and f is a function that returns a value for a position.
///
///   row.in(k, at)                  returns the element of input k at the position
///   row.allowed_or(k, at, x)       returns the element of input k, or x where the mask forbids the element
///   row.maximum(f)                 returns the maximum of f over the row; NaN is skipped, −inf if there are no values
///   row.sum(f)                     returns the sum of f over the row, as f64
///   row.sums(f)                    returns several sums: f returns a std::array of values
///   row.keep(k, f)                 computes f once at every position, and returns a function that gives these values.
///                                  They may be stored in output k, which must be written afterwards
///   row.write(k, f)                sets output k to f(at) at every position, and returns a function that gives these
///                                  values
///   row.dropout_factors(k, mask)   returns a function that gives mask.scale() where the mask, of one row, keeps the
///                                  element and 0 where it drops it; elements are counted in output k, which is
///                                  contiguous. It may store the factors there; write(k) may read them
///   row.write_element(k, j, x)     sets element j of output k to x
///   row.scan(k, f, reverse)        sets output k to the prefix sums of f, each including its own position, or with
///                                  reverse to the suffix sums; added up in f64
///   row.add_to_column(k, f)        adds f(at) to column sum k, [n], which is summed over all rows
///   row.size(), row.element(k, j)  return the number of elements of the row, and element j of input k
///   row.number(k), row.precise_number(k), row.index(k)
///                                  return input k, which has one value for the row; see RowOperand for its type
///   row.write_number(k, x), row.write_precise_number(k, x)
///                                  sets output k, which has one value for the row, to x
///
/// To add one, write the struct in the header of its operation, such as autograd/operations/softmax.h, and add the
/// header's list of formulas to autograd/operations/row_formulas.h. The public function calls run_rows
/// (tensor/rows.h), and a ProvideRows (tensor/cpu/row.h) in its file makes the CPU's kernel. The formula then runs on
/// every device, and the tests compare the devices with a plain loop.
///
/// In a backward pass, a row whose gradient is 0 everywhere gives 0 everywhere, whatever its numbers are: products with
/// gradients are gradient_times().
#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "tensor/formula/dual.h"
#include "tensor/formula/list.h"
#include "tensor/formula/math.h"
#include "tensor/formula/philox.h"

namespace fovea::formula {

/// The kind of an operand. `elements`: n elements in each row, of the type that the formula computes in. The other
/// kinds have one value for each row: `number` of the type that the formula computes in, `precise_number` f64, `index`
/// i64.
enum class RowOperand { elements, number, precise_number, index };

/// Properties of a formula with their defaults; a formula derives from this and redeclares a property to change it.
struct RowFormula {
  static constexpr bool takes_mask = false;  ///< whether the formula calls row.allowed_or
  static constexpr bool keeps = false;       ///< whether it calls row.keep; if so, short rows stay in registers
  static constexpr int column_sums = 0;      ///< number of column sums, [n] each, that it adds to
  static constexpr int cost = 4;             ///< work per element, in additions
};

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// Returns the value to subtract from logits before exp: their maximum, or 0 if that is −inf, because −inf − (−inf)
/// would be NaN, while exp(−inf − 0) is 0.
template <class T>
FOVEA_HD FOVEA_INLINE T finite_or_zero(T maximum) {
  return maximum == -infinity<T> ? T(0) : maximum;
}

}  // namespace fovea::formula
