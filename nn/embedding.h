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
    /// The padding token, whose vector is always zeros. Its row of the table starts as zeros, and forward() gives it no
    /// gradient. An output layer that shares the table may: by the gradient of padding's logit the model learns not to
    /// predict padding, and the row gets other numbers, which forward() does not read. Empty for no padding token.
    std::optional<std::int64_t> padding = 0;
    bool scale = false;    ///< whether to multiply the vectors by sqrt(d) (Vaswani et al. 2017, section 3.4)
    double deviation = 0;  ///< standard deviation of the initial values; 0 stands for d^-1/2
  };
  /// Throws Error for a padding token outside 0 … vocabulary − 1.
  Embedding(std::int64_t vocabulary, std::int64_t dim) : Embedding(vocabulary, dim, Options()) {}
  Embedding(std::int64_t vocabulary, std::int64_t dim, const Options& options);

  /// Returns the vectors of the tokens: tokens [...], i32 or i64 → [..., d]. Tokens on the CPU are copied to the
  /// table's device. Throws an Error that names the first token outside 0 … vocabulary − 1.
  Variable forward(const Tensor& tokens) const;

  /// The table [vocabulary, d]. An output layer may share it; then the padding row has the output layer's gradient.
  const Variable& weight() const { return weight_; }

 private:
  Options options_;
  Variable weight_;
};

/// The position encoding that a Transformer adds to its embeddings.
enum class Positions { none, sinusoidal, learned };

/// Returns the sinusoidal encodings (Vaswani et al. 2017, section 3.5) of the positions begin … begin + T − 1, f64
/// [T, d]. The layout is that of Tensor2Tensor: sines in the first d/2 columns, cosines in the next d/2. For position p
/// and k = 0 … d/2 − 1 the angle is p · 10000^(−k / (d/2 − 1)). For odd d the last column is 0.
Tensor sinusoidal_positions(std::int64_t T, std::int64_t dim, std::int64_t begin = 0);

/// Adds to each state the encoding of its position: sinusoids, a learned vector, or nothing. The initial values of
/// learned vectors are normal with mean 0 and standard deviation d^-1/2.
class PositionEncoding : public Module {
 public:
  /// `longest` is the number of learned vectors. Positions::none and sinusoidal have no limit and ignore `longest`.
  PositionEncoding(Positions kind, std::int64_t dim, std::int64_t longest);

  /// x [B, T, d], whose first state is at position `begin` → [B, T, d]. Throws Error if positions are learned and a
  /// state is at position `longest` or later.
  Variable forward(const Variable& x, std::int64_t begin = 0);

 private:
  /// Returns sinusoids of at least the positions 0 … end − 1, [≥ end, d], with the type and device of `x`.
  Tensor sinusoids(const Variable& x, std::int64_t end);

  Positions kind_;
  Variable weight_;                ///< learned vectors, [longest, d]; undefined unless positions are learned
  CachedValue<Tensor> sinusoids_;  ///< table [positions, d], for at least the positions needed so far
};

}  // namespace fovea
