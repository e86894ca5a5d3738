/// Checking gradients against finite differences.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

struct GradcheckOptions {
  double step = 1e-6;       ///< of the central difference
  double tolerance = 1e-6;  ///< allowed |analytic − numeric| relative to 1 + the larger of both
  std::uint64_t seed = 1;   ///< of the cotangents
};

/// A function of several variables to one variable.
using DifferentiableFunction = std::function<Variable(const std::vector<Variable>&)>;

/// Compares every input's gradient of Σ cotangent ∘ f(inputs) with central differences, element by element, in f64 and
/// with random asymmetric cotangents. Returns "" or one line naming the first input and element that differ. f must
/// return the same for the same inputs; dropout does, because every call runs in a RandomScope of one seed.
std::string gradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                      const GradcheckOptions& options = {});

/// The same for second derivatives: those by create_graph against differences of first derivatives.
std::string gradgradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                          const GradcheckOptions& options = {.tolerance = 1e-5});

}  // namespace fovea
