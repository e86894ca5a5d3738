/// Rules for the initial values of parameters.
#pragma once
#include <functional>
#include <string>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace fovea {

/// A rule that fills a tensor, and its description in the notation of papers: "Xavier-uniform", "N(0, 0.0442)",
/// "zeros". Values are drawn in f64 and cast to the parameter's type, so that an f32 model and an f64 model start with
/// the same values up to rounding.
struct Initializer {
  std::string description;
  std::function<void(Tensor& values, Generator& generator)> fill;  ///< `values` is f64 and contiguous

  static Initializer zeros() { return constant(0); }
  static Initializer ones() { return constant(1); }
  static Initializer constant(double value);
  static Initializer uniform(double low, double high);  ///< uniform in [low, high)
  static Initializer uniform(double bound) { return uniform(-bound, bound); }
  static Initializer normal(double deviation);  ///< normal with mean 0 and standard deviation `deviation`
  /// Uniform between −a and a, where a = sqrt(6 / (in + out)) (Glorot & Bengio 2010). A parameter [..., in, out] counts
  /// as a stack of matrices [in, out]. For a vector [in], out is taken as 1. fill() throws Error for a scalar.
  static Initializer xavier_uniform();

  /// Returns this rule with all values multiplied by `factor`, as the last layer of a prediction needs that must begin
  /// near its bias.
  Initializer scaled(double factor) const;
  /// Returns this rule with row `row` set to zeros afterwards, as the row of an embedding's padding token needs.
  Initializer with_zero_row(std::int64_t row) const;
  /// Returns this rule for a vector, with the elements begin ≤ i < end set to `value` afterwards, as the forget gate's
  /// elements of an LSTM's bias need.
  Initializer with_range(std::int64_t begin, std::int64_t end, double value) const;
};

}  // namespace fovea
