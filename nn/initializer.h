/// How a parameter gets its first values.
#pragma once
#include <functional>
#include <string>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace fovea {

/// A rule that fills a tensor, and its name in the notation of the papers: "Xavier-uniform", "N(0, 0.0442)", "zeros".
/// Values are drawn in f64 and cast, so that an f32 model starts where its f64 twin does.
struct Initializer {
  std::string description;
  std::function<void(Tensor& values, Generator& generator)> fill;  ///< values: f64, contiguous, on the CPU

  static Initializer zeros() { return constant(0); }
  static Initializer ones() { return constant(1); }
  static Initializer constant(double value);
  static Initializer uniform(double bound);     ///< U(−bound, bound)
  static Initializer normal(double deviation);  ///< N(0, deviation)
  /// U(−a, a) with a = sqrt(6 / (in + out)) for a matrix [in, out], for each of the matrices of [..., in, out], and
  /// for a vector [in], whose out is 1 (Glorot & Bengio 2010).
  static Initializer xavier_uniform();

  /// This rule, then zeros in row `row`: the padding row of an embedding.
  Initializer with_zero_row(std::int64_t row) const;
  /// This rule, then `value` in elements begin ≤ i < end of a vector: the forget gate of an LSTM's bias.
  Initializer with_range(std::int64_t begin, std::int64_t end, double value) const;
};

}  // namespace fovea
