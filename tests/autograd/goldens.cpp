#include "tests/goldens.h"

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

/// tests/goldens/activations.json has them to 16 digits, also far out.
BOOST_AUTO_TEST_CASE(activations_and_two_derivatives_are_right_to_the_last_digits) {
  const std::vector<std::pair<std::string, Variable (*)(const Variable&)>> activations{
      {"gelu", gelu}, {"erf", erf}, {"sigmoid", sigmoid}, {"softplus", softplus}, {"tanh", tanh}};
  nlohmann::json cases = golden("activations.json").at("cases");
  for (const auto& [name, activation] : activations) BOOST_TEST_CONTEXT(name) {
      auto found =
          std::find_if(cases.begin(), cases.end(), [&, &name = name](const auto& c) { return c.at("name") == name; });
      BOOST_REQUIRE(found != cases.end());
      auto points = found->at("x").get<std::vector<double>>();
      Variable x(here(Tensor::from(points, {static_cast<std::int64_t>(points.size())})), true);
      Variable value = activation(x);
      Variable first = grad(sum(value), {x}, {}, {.create_graph = true})[0];
      Variable second = grad(sum(first), {x})[0];
      for (const auto& [part, ours] :
           {std::pair("value", value), std::pair("first", first), std::pair("second", second)}) {
        auto got = ours.value().to_vector<double>(), expected = found->at(part).template get<std::vector<double>>();
        for (std::size_t i = 0; i < points.size(); ++i)
          BOOST_TEST(std::abs(got[i] - expected[i]) <= 1e-15 * std::max(1.0, std::abs(expected[i])),
                     part << " at " << points[i] << " is " << got[i] << ", not " << expected[i]);
      }
    }
}
