/// Tokens and positions as vectors.
#pragma once
#include <optional>

#include "nn/cached_value.h"
#include "nn/module.h"

namespace fovea {

/// A row of a table for every token.
class Embedding : public Module {
 public:
  struct Options {
    /// This token's row is zero and stays so: no gradient reaches it.
    std::optional<std::int64_t> padding = 0;
    bool scale = false;    ///< multiply what is looked up by sqrt(d), as Transformers do
    double deviation = 0;  ///< of the first values; 0: d^-1/2
  };
  /// Rows start as N(0, d^-1/2), or N(0, deviation).
  Embedding(std::int64_t vocabulary, std::int64_t dim) : Embedding(vocabulary, dim, Options()) {}
  Embedding(std::int64_t vocabulary, std::int64_t dim, const Options& options);

  /// tokens [...] i32 or i64 → [..., d]. Throws Error naming the first token that is not in 0 … vocabulary − 1.
  Variable forward(const Tensor& tokens) const;

  const Variable& weight() const { return weight_; }  ///< [vocabulary, d]; a softmax layer may share it

 private:
  Options options_;
  Variable weight_;
};

/// How a Transformer tells positions apart.
enum class Positions { none, sinusoidal, learned };

/// The sinusoids of Vaswani et al. 2017, with the sines in the first half and the cosines in the second: at position p
/// and for k = 0 … d/2 − 1, sin and cos of p · 10000^(−k / (d/2 − 1)). Positions begin … begin + T − 1 → f64 [T, d].
/// Where d is odd the last column is 0.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t dim, std::int64_t begin = 0);

/// Adds to each state what marks its position: a sinusoid, or a learned vector that starts as N(0, d^-1/2).
class PositionEncoding : public Module {
 public:
  /// `longest` is the number of learned vectors; the other kinds have no limit.
  PositionEncoding(Positions kind, std::int64_t dim, std::int64_t longest);

  /// x [B, T, d], whose first state is at position `begin` → [B, T, d]. Throws Error beyond the longest.
  Variable forward(const Variable& x, std::int64_t begin = 0);

 private:
  /// Sinusoids of the positions 0 … end − 1 or more, in x's type and on its device [≥ end, d].
  Tensor sinusoids(const Variable& x, std::int64_t end);

  Positions kind_;
  Variable weight_;                ///< [longest, d], of learned positions
  CachedValue<Tensor> sinusoids_;  ///< [positions, d]; as many positions as were needed so far
};

}  // namespace fovea
