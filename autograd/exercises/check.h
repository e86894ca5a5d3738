/// Functions that all exercises use: random inputs, and a comparison that stops at the first wrong value and prints one
/// line with its index, what it is, and what it should be.
#pragma once
#include <cmath>
#include <cstdio>
#include <functional>

#include "autograd/operations.h"
#include "tensor/random.h"

namespace fovea::exercises {

/// A leaf of type f64 that requires a gradient, with random values from [low, high).
inline Variable random_leaf(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1) {
  Tensor values = Tensor::empty(shape, DType::f64);
  Generator generator(seed);
  fill_uniform(values, generator, low, high);
  return Variable(values, true);
}

/// Throws Error unless `value` is `expected`, but for rounding. NaN is never right.
inline void expect(const std::string& what, double value, double expected, double tolerance = 1e-6) {
  require(std::abs(value - expected) <= tolerance * (1 + std::abs(expected)), "{} is {:.6g}; it should be {:.6g}", what,
          value, expected);
}

/// The same for every element of a tensor, and for its shape.
inline void expect(const std::string& what, const Tensor& value, const Tensor& expected, double tolerance = 1e-6) {
  require(value.defined(), "{} is undefined; it should have the shape {}", what, expected.shape());
  require(value.shape() == expected.shape(), "{} has the shape {}; it should have {}", what, value.shape(),
          expected.shape());
  const auto mine = value.to_vector<double>(), right = expected.to_vector<double>();
  for (std::size_t k = 0; k < mine.size(); ++k) {
    Shape index = value.shape();  // of element k
    auto rest = static_cast<std::int64_t>(k);
    for (int d = value.rank() - 1; d >= 0; --d) {
      index[d] = rest % value.size(d);
      rest /= value.size(d);
    }
    expect(fmt::format("{} at {}", what, index), mine[k], right[k], tolerance);
  }
}

/// The derivative of f() along each element of x by central differences, for comparison.
inline Tensor differences(const std::function<double()>& f, Variable& x) {
  Tensor out = Tensor::empty(x.shape(), DType::f64);
  for (std::int64_t k = 0; k < out.elements(); ++k) {
    auto moved = [&](double by) {
      x.value().mutable_data<double>()[k] += by;
      const double y = f();
      x.value().mutable_data<double>()[k] -= by;
      return y;
    };
    out.mutable_data<double>()[k] = (moved(1e-5) - moved(-1e-5)) / 2e-5;
  }
  return out;
}

/// Runs an exercise's check. Prints "right" or what is wrong, and returns the program's exit status.
inline int run(void (*check)()) try {
  check();
  std::puts("right");
  return 0;
} catch (const std::exception& error) {
  std::puts(error.what());
  return 1;
}

}  // namespace fovea::exercises
