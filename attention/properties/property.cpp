#include "attention/properties/property.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "attention/engine/attend.h"
#include "attention/properties/cases.h"
#include "attention/properties/inputs.h"
#include "tensor/error.h"

namespace fovea::properties {

const std::vector<Property>& all_properties() {
  static const std::vector<Property> all = [] {
    std::vector<Property> found;
    for (const auto& part :
         {gradient_properties(), engine_properties(), state_properties(), decoding_properties(), unseen_properties()})
      found.insert(found.end(), part.begin(), part.end());
    return found;
  }();
  return all;
}

Outcome check(const Property& property, const std::vector<std::string>& specifications, std::optional<Place> only) {
  Outcome outcome;
  for (const std::string& specification : specifications)
    for (Place place : only ? std::vector{*only} : all_places()) {
      std::unique_ptr<Attention> attention;
      try {
        attention = random_attention(specification, place);
      } catch (const Error&) {
        continue;  // not defined in this place
      }
      // `fastest` would not choose the fused engine for rows as short as those of the properties.
      AttentionEngineScope engine(has_fused_form(specification) ? AttentionEngine::fused : AttentionEngine::composed);
      try {
        outcome.checked += property.check({specification, place, *attention});
      } catch (const Error& error) {
        ++outcome.checked;
        outcome.failures.push_back({specification, place, error.what()});
      }
    }
  return outcome;
}

std::vector<std::string> parameters_without_effect(const std::string& specification, std::optional<Place> only) {
  std::map<std::string, bool> has_effect;
  for (Place place : only ? std::vector{*only} : all_places()) {
    const std::unique_ptr<Attention> attention = usable_attention(specification, place);
    if (!attention) continue;
    Generator generator(8);
    const Subject subject{specification, place, *attention};
    const States states = random_states(place, generator);
    auto output = [&] { return attention->forward(input_of(subject, states)).value().to_vector<double>(); };
    for (auto& parameter : attention->parameters()) {
      const std::string owner = parameter.name.substr(0, parameter.name.find('.'));
      if (owner == "query" || owner == "key" || owner == "value" || owner == "output") continue;
      const std::vector<double> before = output();
      Variable variable = parameter.variable;
      variable.value().copy_from(random_tensor(variable.shape(), generator, -3, 3));
      const std::vector<double> after = output();
      // what cancels in the softmax changes the last digits
      has_effect[parameter.name] |= !std::equal(before.begin(), before.end(), after.begin(), [](double x, double y) {
        return std::abs(x - y) <= 1e-9 * (1 + std::abs(x));
      });
    }
  }
  std::vector<std::string> without;
  for (const auto& [name, has] : has_effect)
    if (!has) without.push_back(name);
  return without;
}

void require_near(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  require(a.shape() == b.shape(), "{}: {} and {}", what, a.describe(), b.describe());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t k = 0; k < x.size(); ++k)
    require(std::abs(x[k] - y[k]) <= tolerance,
            "{}: element {} is {}, and {} in the other computation; at most {} apart", what, k, x[k], y[k], tolerance);
}

}  // namespace fovea::properties
