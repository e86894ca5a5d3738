/// Random f64 leaves for gradient checks.
#pragma once
#include "autograd/variable.h"
#include "tensor/random.h"
#include "tests/device.h"

namespace fovea::test {

/// Uniform on [low, high), on the tested device; requires a gradient.
inline Variable random_input(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1) {
  Tensor values = Tensor::empty(shape, DType::f64);
  Generator generator(seed);
  fill_uniform(values, generator, low, high);
  return Variable(here(values), true);
}

}  // namespace fovea::test
