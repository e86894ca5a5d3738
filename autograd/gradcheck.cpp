#include "autograd/gradcheck.h"

#include <cmath>

#include "autograd/operations.h"
#include "tensor/random.h"

namespace fovea {

namespace {

/// Random and never near 0, so that no element's gradient is ignored.
Variable asymmetric(const Shape& shape, Device device, Generator& generator) {
  Tensor values = Tensor::empty(shape, DType::f64);
  fill_uniform(values, generator, 0.5, 1.5);
  Tensor signs = Tensor::empty(shape, DType::f64);
  fill_uniform(signs, generator, -1, 2);
  double* value = values.data<double>();
  const double* sign = signs.data<double>();
  for (std::int64_t i = 0; i < values.elements(); ++i) value[i] = sign[i] < 0 ? -value[i] : value[i];
  return values.to(device);
}

/// Σ cotangent ∘ f(inputs), with the same random numbers drawn inside f every time.
Variable projected(const DifferentiableFunction& f, const std::vector<Variable>& inputs, std::uint64_t seed) {
  default_generator() = Generator(seed);
  Variable y = f(inputs);
  Generator generator(seed + 1);
  return sum(y * asymmetric(y.shape(), y.device(), generator));
}

std::string compare(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                    const GradcheckOptions& options) {
  for (std::size_t k = 0; k < inputs.size(); ++k)
    require(inputs[k].dtype() == DType::f64, "gradcheck: input {} is {}; differences need f64", k,
            inputs[k].describe());
  std::vector<Variable> leaves, wanted;
  for (const Variable& input : inputs) {
    leaves.emplace_back(input.value().clone(), input.requires_grad());
    if (input.requires_grad()) wanted.push_back(leaves.back());
  }
  Gradients analytic = grad(projected(f, leaves, options.seed), wanted);

  std::size_t position = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    std::vector<double> gradient = analytic[position++].value().to_vector<double>();
    std::vector<double> values = inputs[k].value().to_vector<double>();
    auto at = [&](std::size_t element, double shift) {
      std::vector<double> moved = values;
      moved[element] += shift;
      std::vector<Variable> shifted = leaves;
      shifted[k] = Variable(Tensor::from(moved, inputs[k].shape()).to(inputs[k].device()));
      return projected(f, shifted, options.seed).item();
    };
    for (std::size_t e = 0; e < values.size(); ++e) {
      double numeric = (at(e, options.step) - at(e, -options.step)) / (2 * options.step);
      double scale = 1 + std::max(std::abs(numeric), std::abs(gradient[e]));
      if (!(std::abs(numeric - gradient[e]) <= options.tolerance * scale))
        return fmt::format("input {} {} element {}: the gradient is {:.9g}, differences give {:.9g} (seed {})", k,
                           inputs[k].shape().str(), e, gradient[e], numeric, options.seed);
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
  auto first_gradients = [&](const std::vector<Variable>& x) {
    std::vector<Variable> asked, flat;
    for (std::size_t k = 0; k < x.size(); ++k) {
      // A shifted input comes as a constant: a leaf of its own lets the inner gradient be taken.
      if (inputs[k].requires_grad()) asked.push_back(x[k].requires_grad() ? x[k] : Variable(x[k].value(), true));
    }
    std::vector<Variable> arguments = x;
    for (std::size_t k = 0, next = 0; k < x.size(); ++k)
      if (inputs[k].requires_grad()) arguments[k] = asked[next++];
    Gradients gradients = grad(projected(f, arguments, options.seed + 7), asked, {}, {.create_graph = true});
    for (const Variable& gradient : gradients) flat.push_back(reshape(gradient, {-1}));
    return concat(flat, 0);
  };
  std::string message = compare(first_gradients, inputs, options);
  return message.empty() ? message : "second derivative: " + message;
}

}  // namespace fovea
