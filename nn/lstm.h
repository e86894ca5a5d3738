/// Long short-term memory (Hochreiter & Schmidhuber 1997) with the forget gate of Gers et al. 2000.
///
///   i = σ(x W_i + h U_i + b_i)       f = σ(x W_f + h U_f + b_f)
///   g = tanh(x W_g + h U_g + b_g)    o = σ(x W_o + h U_o + b_o)
///   c' = f c + i g                   h' = o tanh(c')
///
/// x [B, in] is the input, h and c [B, n] are the hidden state and the cell. W [in, 4 n], U [n, 4 n] and b [4 n] hold
/// the four gates side by side in the order i, f, g, o. W and U start as U(−a, a) with a = sqrt(6 / (fan_in + n)) for
/// each gate (Glorot & Bengio 2010). b starts at 1 for the forget gate and at 0 for the others.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/layers.h"
#include "nn/lstm_sequence.h"

namespace fovea {

/// One step of an LSTM. Decoders with attention between the steps use it directly; others use Lstm.
class LstmCell : public Module {
 public:
  LstmCell(std::int64_t input_dim, std::int64_t dim);

  /// x [B, in] and a state [B, n] → the next state [B, n]
  LstmState forward(const Variable& x, const LstmState& state) const;

  /// The part of the gates that depends on the input, x W + b. x [..., in], which may hold all steps → [..., 4 n]
  Variable input_gates(const Variable& x) const;
  /// The next state, given the result of input_gates() for this step [B, 4 n].
  LstmState step(const Variable& input_gates, const LstmState& state) const;

  /// Zeros [batch, n]
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
  Variable states;  ///< hidden states of the top layer, 0 at padding: [B, T, n], or [B, T, 2 n], forward then backward
  /// Final states of each layer and direction [B, n], ordered by layer, within a layer forward then backward. The final
  /// state of the forward direction is the one after the sentence's last real token, of the backward direction the one
  /// after its first token.
  std::vector<LstmState> last;
};

/// One layer in one or both directions. Parts: forward, backward.
class LstmLayer : public Module {
 public:
  LstmLayer(std::int64_t input_dim, std::int64_t dim, bool bidirectional);

  /// x [T, B, in] → [T, B, n] or [T, B, 2 n]. `initial` has one state per direction, or is empty for zeros. Appends the
  /// final state of each direction to `last`.
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
  double dropout = 0;  ///< probability, between layers
};

/// A stack of LSTM layers over padded batches. Results do not depend on padding: a state stays as it is after the
/// sentence's end, and the backward direction starts at the sentence's last real token. Parts: the layers, "0", "1", …
class Lstm : public Module {
 public:
  explicit Lstm(const LstmOptions& options);

  /// x [B, T, in], T > 0. lengths i32 [B], in 0 … T; undefined: all sentences have T tokens. `initial` has the order of
  /// LstmOutput::last; empty: zeros. Throws Error for other shapes, lengths or numbers of states.
  LstmOutput forward(const Variable& x, const Tensor& lengths, const std::vector<LstmState>& initial = {}) const;

 private:
  LstmOptions options_;
  std::vector<std::unique_ptr<LstmLayer>> layers_;
  Dropout dropout_;
};

}  // namespace fovea
