#include "autograd/gradcheck.h"

#include <cmath>

#include "autograd/operations.h"
#include "tensor/random.h"

namespace fovea {

namespace {

/// Returns random numbers of both signs, with absolute values in [0.5, 1.5): no cotangent is near 0, so that every
/// element's gradient counts.
Variable asymmetric(const Shape& shape, Device device, Generator& generator) {
  Tensor values = Tensor::empty(shape, DType::f64);
  fill_uniform(values, generator, 0.5, 1.5);
  Tensor signs = Tensor::empty(shape, DType::f64);
  fill_uniform(signs, generator, -1, 2);
  double* value = values.mutable_data<double>();
  const double* sign = signs.data<double>();
  for (std::int64_t i = 0; i < values.elements(); ++i) value[i] = sign[i] < 0 ? -value[i] : value[i];
  return values.to(device);
}

/// Returns Σ cotangent ∘ f(inputs). For equal seeds the cotangents and the random numbers drawn inside f are equal.
Variable projected(const DifferentiableFunction& f, const std::vector<Variable>& inputs, std::uint64_t seed) {
  RandomScope random({seed});
  Variable y = f(inputs);
  Generator generator(seed + 1);
  return sum(y * asymmetric(y.shape(), y.device(), generator));
}

std::string compare(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                    const GradcheckOptions& options) {
  std::vector<Variable> wanted;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    require(inputs[k].dtype() == DType::f64, "gradcheck: input {} is {}; differences need f64", k, inputs[k]);
    require(inputs[k].is_leaf(), "gradcheck: input {} is not a leaf; pass what it was made from", k);
    if (inputs[k].requires_grad()) wanted.push_back(inputs[k]);
  }
  require(!wanted.empty(), "gradcheck: none of the {} inputs requires a gradient; there is nothing to check",
          inputs.size());
  Variable root = projected(f, inputs, options.seed);
  Gradients analytic;
  if (root.requires_grad())
    analytic = grad(root, wanted);
  else  // f does not depend on its inputs, as for example the gradient of a linear function does not
    for (const Variable& input : wanted) analytic.emplace_back(Tensor::zeros(input.shape(), DType::f64));

  for (std::size_t k = 0; k < wanted.size(); ++k) {
    std::vector<double> gradient = analytic[k].value().to_vector<double>();
    const std::vector<double> values = wanted[k].value().to_vector<double>();
    Tensor place = wanted[k].value();  // shares the input's memory; each element is shifted and restored
    auto put = [&](const std::vector<double>& moved) { place.copy_from(Tensor::from(moved, place.shape())); };
    auto at = [&](std::size_t element, double shift) {
      std::vector<double> moved = values;
      moved[element] += shift;
      put(moved);
      double result = projected(f, inputs, options.seed).item();
      put(values);
      return result;
    };
    const std::size_t stride = options.elements > 0 ? std::max<std::size_t>(values.size() / options.elements, 1) : 1;
    for (std::size_t e = 0; e < values.size(); e += stride) {
      double numeric = (at(e, options.step) - at(e, -options.step)) / (2 * options.step);
      double scale = 1 + std::max(std::abs(numeric), std::abs(gradient[e]));
      if (!(std::abs(numeric - gradient[e]) <= options.tolerance * scale))
        return fmt::format("input {}{} {} element {}: the gradient is {:.9g}, differences give {:.9g} (seed {})", k,
                           wanted[k].name().empty() ? "" : " '" + wanted[k].name() + "'", wanted[k].shape().str(), e,
                           gradient[e], numeric, options.seed);
    }
  }
  return "";
}

}  // namespace

std::string gradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                      const GradcheckOptions& options) {
  return compare(f, inputs, options);
}

std::string gradgradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                          const GradcheckOptions& options) {
  std::vector<Variable> wanted;
  for (const Variable& input : inputs)
    if (input.requires_grad()) wanted.push_back(input);
  auto first_gradients = [&](const std::vector<Variable>& x) {
    Gradients gradients = grad(projected(f, x, options.seed + 7), wanted, {}, {.create_graph = true});
    for (Variable& gradient : gradients) gradient = reshape(gradient, {-1});
    return concat(gradients, 0);
  };
  std::string message = compare(first_gradients, inputs, options);
  return message.empty() ? message : "second derivative: " + message;
}

}  // namespace fovea
