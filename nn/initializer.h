/// Rules for the initial values of parameters.
#pragma once
#include <functional>
#include <string>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace fovea {

/// A rule that fills a tensor, and its description in the notation of papers: "Xavier-uniform", "N(0, 0.0442)",
/// "zeros". Values are drawn in f64 and cast to the parameter's type, so that an f32 model and an f64 model start
/// alike.
struct Initializer {
  std::string description;
  std::function<void(Tensor& values, Generator& generator)> fill;  ///< values: f64, contiguous, on the CPU

  static Initializer zeros() { return constant(0); }
  static Initializer ones() { return constant(1); }
  static Initializer constant(double value);
  static Initializer uniform(double bound);     ///< U(−bound, bound)
  static Initializer normal(double deviation);  ///< N(0, deviation)
  /// U(−a, a) with a = sqrt(6 / (in + out)) (Glorot & Bengio 2010). A parameter [..., in, out] is a stack of matrices
  /// [in, out]; for a vector [in] out is 1. fill() throws Error for a scalar.
  static Initializer xavier_uniform();

  /// This rule with zeros in row `row`, such as the padding row of an embedding.
  Initializer with_zero_row(std::int64_t row) const;
  /// This rule with `value` in elements begin ≤ i < end of a vector, such as the forget gate of an LSTM's bias.
  Initializer with_range(std::int64_t begin, std::int64_t end, double value) const;
};

}  // namespace fovea
