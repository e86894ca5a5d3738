#include "attention/properties/inputs.h"
#include "attention/properties/property.h"
#include "autograd/gradcheck.h"
#include "tensor/error.h"

namespace fovea::properties {

namespace {

bool every_input_and_parameter_has_its_gradient(const Subject& subject) {
  if (subject.specification == "flexible(detach_focus=true)") return false;  // its gradient leaves out the focus
  Generator generator(11);
  const bool is_cross = subject.place == Place::cross;
  const States states = random_states(subject.place, generator);
  std::vector<Variable> inputs{Variable(states.query, true)};
  if (is_cross) inputs.emplace_back(states.key, true);
  // Tables of many distances are checked in the specifications whose options make them short.
  for (auto& parameter : subject.attention.parameters())
    if (parameter.variable.value().elements() < 200) inputs.push_back(parameter.variable.named(parameter.name));
  auto f = [&](const std::vector<Variable>& x) {
    Variable key = is_cross ? x[1] : x[0];
    return subject.attention.forward({.query = x[0],
                                      .key = key,
                                      .value = key,
                                      .key_lengths = lengths_of({5, 3}),
                                      .mask = mask_for(subject.attention, x[0].size(1), J),
                                      .causal = subject.place == Place::decoder});
  };
  const std::string difference = gradcheck(f, inputs);
  require(difference.empty(), "{}", difference);
  return true;
}

bool every_method_has_second_derivatives(const Subject& subject) {
  Generator generator(19);
  auto f = [&](const std::vector<Variable>& x) {
    return subject.attention.forward({.query = x[0],
                                      .key = x[0],
                                      .value = x[0],
                                      .mask = mask_for(subject.attention, 3, 3),
                                      .causal = subject.place == Place::decoder});
  };
  const std::string difference = gradgradcheck(f, {Variable(random_tensor({1, 3, d}, generator), true)});
  require(difference.empty(), "{}", difference);
  return true;
}

}  // namespace

std::vector<Property> gradient_properties() {
  return {{"every_input_and_parameter_has_its_gradient", every_input_and_parameter_has_its_gradient},
          {"every_method_has_second_derivatives", every_method_has_second_derivatives}};
}

}  // namespace fovea::properties
