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

/// One step: what a decoder with attention between the steps calls.
class LstmCell : public Module {
 public:
  LstmCell(std::int64_t input_dim, std::int64_t dim);

  /// x [B, in], state [B, n] → the next state
  LstmState forward(const Variable& x, const LstmState& state) const;

  /// The inputs' part of the gates, x W + b: one product for all steps. x [..., in] → [..., 4 n]
  Variable input_gates(const Variable& x) const;
  /// A step from the inputs' part [B, 4 n].
  LstmState step(const Variable& input_gates, const LstmState& state) const;

  LstmState zero_state(std::int64_t batch) const;
  const Variable& input_weight() const { return input_weight_; }    ///< W [in, 4 n]
  const Variable& hidden_weight() const { return hidden_weight_; }  ///< U [n, 4 n]
  const Variable& bias() const { return bias_; }                    ///< b [4 n]

 private:
  std::int64_t dim_;
  Variable input_weight_, hidden_weight_, bias_;
};

/// What a stack computes on the way up: the states it hands on, and where each direction of each layer ended.
struct LstmOutput {
  Variable states;  ///< of the top layer, forward then backward: [B, T, n] or [B, T, 2 n]; 0 at padding
  /// After each sentence's true last step (for a backward direction: after its first token), layer by layer, forward
  /// then backward.
  std::vector<LstmState> last;
};

/// One layer, in one direction or both. Parts: forward, backward.
class LstmLayer : public Module {
 public:
  LstmLayer(std::int64_t input_dim, std::int64_t dim, bool bidirectional);

  /// x [T, B, in] → [T, B, n] or [T, B, 2 n]. initial and last have one state per direction; last is appended to.
  Variable forward(const Variable& x, const RealSteps& real, std::span<const LstmState> initial,
                   std::vector<LstmState>& last) const;

 private:
  LstmCell forward_;
  std::optional<LstmCell> backward_;
};

struct LstmOptions {
  std::int64_t input_dim = 0;
  std::int64_t dim = 0;  ///< n, of one direction
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  ///< of what a layer hands to the next
};

/// A stack of LSTM layers over padded batches. Padding changes nothing: a finished sentence keeps its state, and the
/// backward direction starts at each sentence's true end. Parts: the layers, "0", "1", …
class Lstm : public Module {
 public:
  explicit Lstm(const LstmOptions& options);

  /// x [B, T, in]; lengths i32 [B], undefined: all are T long; initial: as LstmOutput::last, or none: zeros.
  LstmOutput forward(const Variable& x, const Tensor& lengths, const std::vector<LstmState>& initial = {}) const;

 private:
  LstmOptions options_;
  std::vector<std::unique_ptr<LstmLayer>> layers_;
  Dropout dropout_;
};

}  // namespace fovea
