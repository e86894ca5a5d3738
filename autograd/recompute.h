/// Computing a part of a model twice, so that its intermediate results need no memory between the passes.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "autograd/variable.h"

namespace fovea {

/// Computes some variables from others, such as the output of a layer from its input.
using RecomputedFunction = std::function<std::vector<Variable>(const std::vector<Variable>& inputs)>;

/// Returns f(inputs), and keeps nothing of what f computes on the way: the backward pass calls f again (Chen et al.
/// 2016, "Training Deep Nets with Sublinear Memory Cost"). `parameters` are the leaves that f reads beside its inputs;
/// they get gradients too. f must be a pure function of inputs and parameters, but for dropout: the second call draws
/// the same random numbers as the first. The backward pass must run in the state of the forward pass: with the same
/// precision of products, attention engine and training mode of the modules that f uses. Results and gradients then
/// have the same bits as those of f itself. `name`, a string literal, names the operation on the tape.
std::vector<Variable> recompute(std::string_view name, const RecomputedFunction& f, const std::vector<Variable>& inputs,
                                const std::vector<Variable>& parameters);

}  // namespace fovea
