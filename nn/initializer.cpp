#include "nn/initializer.h"

#include <cmath>

#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

double xavier_bound(const Shape& shape) {
  require(shape.rank() >= 1,
          "Xavier-uniform: the parameter is a scalar, which has no fan-in; use constant() or uniform()");
  std::int64_t in = shape.rank() == 1 ? shape[0] : shape[-2], out = shape.rank() == 1 ? 1 : shape[-1];
  return std::sqrt(6.0 / static_cast<double>(in + out));
}

std::string constant_name(double value) {
  return value == 0 ? "zeros" : value == 1 ? "ones" : fmt::format("constant {:.4g}", value);
}

}  // namespace

Initializer Initializer::constant(double value) {
  return {constant_name(value), [value](Tensor& values, Generator&) { values.fill(value); }};
}

Initializer Initializer::uniform(double low, double high) {
  return {fmt::format("U({:.4g}, {:.4g})", low, high),
          [low, high](Tensor& values, Generator& generator) { fill_uniform(values, generator, low, high); }};
}

Initializer Initializer::normal(double deviation) {
  return {fmt::format("N(0, {:.4g})", deviation),
          [deviation](Tensor& values, Generator& generator) { fill_normal(values, generator, 0, deviation); }};
}

Initializer Initializer::xavier_uniform() {
  return {"Xavier-uniform", [](Tensor& values, Generator& generator) {
            double bound = xavier_bound(values.shape());
            fill_uniform(values, generator, -bound, bound);
          }};
}

Initializer Initializer::scaled(double factor) const {
  return {fmt::format("{:.4g} × {}", factor, description), [rule = fill, factor](Tensor& values, Generator& generator) {
            rule(values, generator);
            values.copy_from(map(Affine{factor, 0}, values));
          }};
}

Initializer Initializer::with_zero_row(std::int64_t row) const {
  return {fmt::format("{}, row {} zero", description, row), [rule = fill, row](Tensor& values, Generator& generator) {
            rule(values, generator);
            values.select(0, row).fill(0);
          }};
}

Initializer Initializer::with_range(std::int64_t begin, std::int64_t end, double value) const {
  return {fmt::format("{}, {:.4g} in {} to {}", description, value, begin, end - 1),
          [rule = fill, begin, end, value](Tensor& values, Generator& generator) {
            rule(values, generator);
            values.slice(0, begin, end).fill(value);
          }};
}

}  // namespace fovea
