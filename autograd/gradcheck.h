/// Checks of gradients against finite differences.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

struct GradcheckOptions {
  double step = 1e-6;       ///< h in the central difference (f(x + h) − f(x − h)) / (2 h)
  double tolerance = 1e-6;  ///< on |analytic − numeric| / (1 + max(|analytic|, |numeric|))
  std::uint64_t seed = 1;   ///< of the random cotangents, and of random numbers drawn inside f
  /// Check about this many elements of each input, evenly spaced; 0: all.
  std::size_t elements = 0;
};

/// A function of several variables to one variable.
using DifferentiableFunction = std::function<Variable(const std::vector<Variable>&)>;

/// Compares the gradient of Σ cotangent ∘ f(inputs) with central differences, for every element of every input that
/// requires a gradient. The cotangents are random numbers, one for each element of f's result. Returns "" if all agree,
/// otherwise one line with the first input and element that differ. Inputs must be f64 leaves. f must return the same
/// result for the same inputs; dropout does, because every call of f runs in a RandomScope with the same seed.
std::string gradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                      const GradcheckOptions& options = {});

/// Like gradcheck(), for second derivatives: compares the gradients of f's gradients, which are recorded with
/// create_graph, with central differences of f's gradients.
std::string gradgradcheck(const DifferentiableFunction& f, const std::vector<Variable>& inputs,
                          const GradcheckOptions& options = {.tolerance = 1e-5});

}  // namespace fovea
