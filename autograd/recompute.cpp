#include "autograd/recompute.h"

#include <optional>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/random.h"

namespace fovea {

namespace {

/// A call of f: all that is needed to repeat it.
struct Call {
  RecomputedFunction f;
  std::vector<Saved> inputs, parameters;
  std::optional<RandomPosition> random;  ///< the position of the random numbers before the call

  std::vector<Variable> repeat(const std::vector<Variable>& x) const {
    if (!random) return f(x);
    const RandomScope scope = RandomScope::at(*random);
    return f(x);
  }
};

std::vector<Variable> checked(const std::vector<Saved>& saved, const Node& node) {
  std::vector<Variable> x;
  for (const Saved& one : saved) x.push_back(one.get(node));
  return x;
}

/// One variable whose gradients are those of the outputs, weighted with g. An undefined g is zero. Undefined if none of
/// the outputs with a gradient depends on anything that f was given.
Variable weighted_sum(const std::vector<Variable>& outputs, const Gradients& g) {
  Variable total;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!g[k].defined() || !outputs[k].requires_grad()) continue;
    const Variable part = sum(outputs[k] * g[k]);
    total = total.defined() ? total + part : part;
  }
  return total;
}

/// The gradients of `wanted`, recorded for second derivatives. The pass of each output starts with its gradient g: a
/// sum such as weighted_sum() would lead it to the operations that made g.
Gradients recorded_gradients(const std::vector<Variable>& outputs, const std::vector<Variable>& wanted,
                             const Gradients& g) {
  Gradients all(wanted.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!g[k].defined() || !outputs[k].requires_grad()) continue;
    const Gradients of_one = partial_gradients(outputs[k], wanted, g[k]);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (of_one[i].defined()) all[i] = all[i].defined() ? all[i] + of_one[i] : of_one[i];
  }
  return all;
}

/// The gradients of inputs and parameters.
Gradients gradients_of(const Call& call, const Gradients& g, const Node& node) {
  const bool is_recorded = grad_enabled();  // for second derivatives
  std::vector<Variable> inputs = checked(call.inputs, node);
  const std::vector<Variable> parameters = checked(call.parameters, node);
  GradMode recording(true);
  if (!is_recorded)  // leaves: the pass ends there
    for (std::size_t k = 0; k < inputs.size(); ++k) inputs[k] = Variable(inputs[k].value(), node.needs(k));
  std::vector<Variable> wanted = inputs;
  wanted.insert(wanted.end(), parameters.begin(), parameters.end());
  const std::vector<Variable> outputs = call.repeat(inputs);
  if (is_recorded) return recorded_gradients(outputs, wanted, g);
  const Variable total = weighted_sum(outputs, g);
  return total.defined() ? partial_gradients(total, wanted, {}, {}) : Gradients(wanted.size());
}

}  // namespace

std::vector<Variable> recompute(std::string_view name, const RecomputedFunction& f, const std::vector<Variable>& inputs,
                                const std::vector<Variable>& parameters) {
  std::vector<Variable> all = inputs;
  all.insert(all.end(), parameters.begin(), parameters.end());
  if (!should_record(all)) return f(inputs);
  Call call{f, {inputs.begin(), inputs.end()}, {parameters.begin(), parameters.end()}, RandomScope::position()};
  std::vector<Variable> values;
  {
    NoGrad off;
    values = f(inputs);
  }
  auto node = make_node(name, all, [call = std::move(call)](const Gradients& g, const Node& node) {
    return gradients_of(call, g, node);
  });
  std::vector<Variable> outputs;
  for (const Variable& value : values)
    outputs.push_back(output_of(node, static_cast<int>(outputs.size()), value.value()));
  return outputs;
}

}  // namespace fovea
