/// Long short-term memory (Hochreiter & Schmidhuber 1997) with the forget gate of Gers et al. 2000. One step reads the
/// input x [B, in], the hidden state h [B, n] and the cell c [B, n], and computes the next hidden state h' and cell c':
///
///   input gate          i = σ(x W_i + h U_i + b_i)
///   forget gate         f = σ(x W_f + h U_f + b_f)
///   candidate           g = tanh(x W_g + h U_g + b_g)
///   output gate         o = σ(x W_o + h U_o + b_o)
///   next cell           c' = f c + i g
///   next hidden state   h' = o tanh(c')
///
/// σ is the logistic function; f c, i g and o tanh(c') are products element by element. W [in, 4 n], U [n, 4 n] and
/// b [4 n] hold the columns of i, f, g and o side by side, in this order. The initial values of W and U are uniform
/// between −a and a, where a = sqrt(6 / (fan_in + n)) and fan_in is `in` for W and n for U: the rule of Glorot & Bengio
/// 2010 for each gate by itself. b starts at 1 for the forget gate and at 0 elsewhere.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/layers.h"
#include "nn/lstm_sequence.h"

namespace fovea {

/// One step of an LSTM. Decoders that attend between two steps use LstmCell directly; other models use Lstm.
class LstmCell : public Module {
 public:
  LstmCell(std::int64_t input_dim, std::int64_t dim);

  /// Returns the next state, given the input x [B, in] and the present state. The hidden state and the cell are [B, n].
  LstmState forward(const Variable& x, const LstmState& state) const;

  /// Returns x W + b, the part of the gates before activation that depends on the input: x [..., in] → [..., 4 n]. x
  /// may hold the inputs of all steps.
  Variable input_gates(const Variable& x) const;
  /// Returns the next state, given the result of input_gates() for this step, [B, 4 n], and the present state.
  LstmState step(const Variable& input_gates, const LstmState& state) const;

  /// Returns a state whose hidden state and cell are zeros, [batch, n].
  LstmState zero_state(std::int64_t batch) const;
  const Variable& input_weight() const { return input_weight_; }    ///< W [in, 4 n]
  const Variable& hidden_weight() const { return hidden_weight_; }  ///< U [n, 4 n]
  const Variable& bias() const { return bias_; }                    ///< b [4 n]

 private:
  std::int64_t dim_;
  Variable input_weight_, hidden_weight_, bias_;
};

/// The result of a stack of LSTM layers.
struct LstmOutput {
  /// Hidden states of the top layer, [B, T, n], or [B, T, 2 n] if bidirectional: the forward direction in the first n
  /// columns, the backward direction in the last n. 0 at padding.
  Variable states;
  /// Final states, [B, n], one per layer and direction: the forward direction of layer 0, its backward direction if
  /// there is one, then layer 1, and so on. The final state of the forward direction is the state after the last real
  /// token of a sentence; that of the backward direction is the state after the sentence's first token.
  std::vector<LstmState> last;
};

/// One LSTM layer over a padded batch, in the forward direction or in both directions. Parts: forward, and backward if
/// bidirectional.
class LstmLayer : public Module {
 public:
  LstmLayer(std::int64_t input_dim, std::int64_t dim, bool bidirectional);

  /// Returns the hidden states after every step, 0 at padding: x [T, B, in] → [T, B, n], or [T, B, 2 n] if
  /// bidirectional. `initial` has one state per direction, or is empty for initial states of zeros. Appends the final
  /// state of each direction to `last`.
  Variable forward(const Variable& x, const RealSteps& real, std::span<const LstmState> initial,
                   std::vector<LstmState>& last) const;

 private:
  LstmCell forward_;
  std::optional<LstmCell> backward_;
};

struct LstmOptions {
  std::int64_t input_dim = 0;
  std::int64_t dim = 0;  ///< n, the width of one direction
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  ///< probability of dropout between layers
};

/// A stack of LSTM layers over padded batches. Results do not depend on padding: padding leaves the state of a sentence
/// unchanged, so that in effect the backward direction starts at the sentence's last real token. Parts: the layers,
/// "0", "1", …, and dropout.
class Lstm : public Module {
 public:
  explicit Lstm(const LstmOptions& options);

  /// Runs the stack over x [B, T, in], T > 0. `lengths`, i32 [B], are in 0 … T; if undefined, all sentences have T
  /// tokens. `initial` holds the initial states in the order of LstmOutput::last; if it is empty, all are zeros. Throws
  /// Error for other shapes, lengths or numbers of states.
  LstmOutput forward(const Variable& x, const Tensor& lengths, const std::vector<LstmState>& initial = {}) const;

 private:
  LstmOptions options_;
  std::vector<std::unique_ptr<LstmLayer>> layers_;
  Dropout dropout_;
};

}  // namespace fovea
