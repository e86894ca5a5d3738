/// Embeddings of tokens and encodings of positions.
#pragma once
#include <optional>

#include "nn/cached_value.h"
#include "nn/module.h"

namespace fovea {

/// Looks up one vector per token in a table [vocabulary, d].
class Embedding : public Module {
 public:
  struct Options {
    /// The token whose row is zero and stays zero, because its gradient is 0. Empty: no token.
    std::optional<std::int64_t> padding = 0;
    bool scale = false;    ///< multiply the vectors by sqrt(d) (Vaswani et al. 2017, section 3.4)
    double deviation = 0;  ///< standard deviation of the initial values; 0: d^-1/2
  };
  /// Throws Error for a padding token outside 0 … vocabulary − 1.
  Embedding(std::int64_t vocabulary, std::int64_t dim) : Embedding(vocabulary, dim, Options()) {}
  Embedding(std::int64_t vocabulary, std::int64_t dim, const Options& options);

  /// tokens [...], i32 or i64 → [..., d]. Throws Error that names the first token outside 0 … vocabulary − 1.
  Variable forward(const Tensor& tokens) const;

  const Variable& weight() const { return weight_; }  ///< [vocabulary, d]; an output layer may share it

 private:
  Options options_;
  Variable weight_;
};

/// The position encoding that a Transformer adds to its embeddings.
enum class Positions { none, sinusoidal, learned };

/// Sinusoids (Vaswani et al. 2017, section 3.5) in the layout of Tensor2Tensor: sines in the first d/2 columns, cosines
/// in the next d/2. For position p and k = 0 … d/2 − 1 the angle is p · 10000^(−k / (d/2 − 1)). Returns the positions
/// begin … begin + T − 1 as f64 [T, d]. For odd d the last column is 0.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t dim, std::int64_t begin = 0);

/// Adds the encoding of its position to each state: a sinusoid, or a learned vector with initial values N(0, d^-1/2).
class PositionEncoding : public Module {
 public:
  /// `longest` is the number of learned vectors. The other kinds have no limit and ignore it.
  PositionEncoding(Positions kind, std::int64_t dim, std::int64_t longest);

  /// x [B, T, d], whose first state is at position `begin` → [B, T, d]. Throws Error for a learned position beyond
  /// `longest`.
  Variable forward(const Variable& x, std::int64_t begin = 0);

 private:
  /// Sinusoids of the positions 0 … end − 1 or more, in x's type and on its device [≥ end, d].
  Tensor sinusoids(const Variable& x, std::int64_t end);

  Positions kind_;
  Variable weight_;                ///< [longest, d], of learned positions
  CachedValue<Tensor> sinusoids_;  ///< [positions, d]; as many positions as were needed so far
};

}  // namespace fovea
