/// Element-wise formulas with several results, for every device: the LSTM's cell and its adjoint.
///
/// To add one: write the struct, add its name to CellFormulas, and write the public function that calls
/// map_several (tensor/map.h).
#pragma once
#include <array>

#include "tensor/formula/functor_list.h"
#include "tensor/formula/math.h"

namespace fovea::formula {

/// One unit of an LSTM (Hochreiter and Schmidhuber 1997, with forget gates), from its gates before activation:
///   c = σ(f) c' + σ(i) tanh(z),  h = σ(o) tanh(c)
/// Results: h, c, and the activations σ(i), σ(f), tanh(z), σ(o), which the adjoint takes.
struct LstmCell {
  static constexpr const char* name = "lstm_cell";
  static constexpr int inputs = 5, outputs = 6, cost = 64;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 6> operator()(T input, T forget, T candidate, T output, T previous) const {
    const T i = sigmoid(input), f = sigmoid(forget), z = tanh(candidate), o = sigmoid(output);
    const T cell = f * previous + i * z;
    return {o * tanh(cell), cell, i, f, z, o};
  }
};

/// The adjoint: from the activations, c', c, and the gradients of h and c, those of the four gates and of c'.
struct LstmCellBackward {
  static constexpr const char* name = "lstm_cell_backward";
  static constexpr int inputs = 8, outputs = 5, cost = 64;

  template <class T>
  FOVEA_HD FOVEA_INLINE std::array<T, 5> operator()(T i, T f, T z, T o, T previous, T cell, T g_hidden,
                                                    T g_cell) const {
    const T one(1), squashed = tanh(cell), d_cell = g_cell + g_hidden * o * (one - squashed * squashed);
    return {d_cell * z * i * (one - i), d_cell * previous * f * (one - f), d_cell * i * (one - z * z),
            g_hidden * squashed * o * (one - o), d_cell * f};
  }
};

using CellFormulas = FunctorList<LstmCell, LstmCellBackward>;
inline constexpr int cell_formula_count = count_of(CellFormulas{});

}  // namespace fovea::formula
