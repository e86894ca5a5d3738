#include "attention/properties/property.h"

#include <cmath>

#include "attention/engine/attend.h"
#include "attention/properties/cases.h"
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

void require_near(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  require(a.shape() == b.shape(), "{}: {} and {}", what, a.describe(), b.describe());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t k = 0; k < x.size(); ++k)
    require(std::abs(x[k] - y[k]) <= tolerance,
            "{}: element {} is {}, and {} in the other computation; at most {} apart", what, k, x[k], y[k], tolerance);
}

}  // namespace fovea::properties
