/// Gradient checks of modules: with respect to their inputs and to every parameter.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/node.h"
#include "nn/module.h"
#include "tests/device.h"

namespace fovea::test {

inline Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1) {
  Generator generator(seed);
  Tensor out = Tensor::empty(shape, DType::f64);
  fill_uniform(out, generator, low, high);
  return here(out);
}

/// On the tested device and in f64, with every parameter random: no bias is 0 and no gain is 1.
inline void randomise(Module& module, std::uint64_t seed = 5) {
  module.to(test_device());
  module.initialise(seed);
  module.to(DType::f64);
  for (NamedParameter& p : module.parameters()) p.variable.value().copy_from(random_tensor(p.variable.shape(), ++seed));
}

/// gradcheck of forward(inputs) with respect to the inputs and to the module's parameters. "" or what differs; input
/// k ≥ inputs.size() is parameter k − inputs.size().
inline std::string module_gradcheck(const Module& module, const DifferentiableFunction& forward,
                                    const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  std::vector<Variable> all, parameters;
  for (const Tensor& input : inputs) all.emplace_back(input, true);
  for (const NamedParameter& p : module.parameters()) {
    parameters.push_back(p.variable);
    all.emplace_back(p.variable.value().clone(), true);
  }
  // The module keeps its own leaves: they get the values asked for, and its pass becomes one node on gradcheck's tape.
  auto through_module = [&](const std::vector<Variable>& x) {
    std::vector<Variable> leaves;
    for (std::size_t k = 0; k < inputs.size(); ++k) leaves.emplace_back(x[k].value(), true);
    for (std::size_t k = 0; k < parameters.size(); ++k) parameters[k].value().copy_from(x[inputs.size() + k].value());
    Variable y = forward(leaves);
    leaves.insert(leaves.end(), parameters.begin(), parameters.end());
    return record("module", y.value(), x, [y, leaves](const Gradients& g, const Node&) {
      return grad(y, leaves, g[0], {.retain_graph = true});
    });
  };
  return gradcheck(through_module, all, options);
}

}  // namespace fovea::test
