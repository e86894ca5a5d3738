// Several threads may run one module, each with a tape of its own.
#include <algorithm>
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "nn/embedding.h"
#include "tests/device.h"
#include "tests/nn/values.h"
#include "tests/several_threads.h"

using namespace fovea;
using namespace fovea::test;

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(several_threads_share_one_position_encoding, *cpu_only()) {
  constexpr int threads = 4, lengths = 300;
  constexpr std::int64_t d = 6;
  PositionEncoding shared(Positions::sinusoidal, d, 0);
  std::vector<double> largest(threads, 0);
  const std::vector<std::string> errors = run_on_threads(threads, [&](int thread) {
    const DType dtype = thread % 2 ? DType::f32 : DType::f64;  // the table is made anew for each type
    for (std::int64_t T = 1; T <= lengths; ++T) {
      Variable x(here(Tensor::zeros({1, T, d}, dtype)), true);
      Variable out = shared.forward(x);
      Tensor slope = grad(sum(square(out)), {x})[0].value(), table = sinusoidal_positions(T, d).to(dtype);
      const std::vector<double> actual = out.value().to_vector<double>(), right = table.to_vector<double>(),
                                twice = slope.to_vector<double>();
      double& worst = largest[static_cast<std::size_t>(thread)];
      for (std::size_t k = 0; k < right.size(); ++k)
        worst = std::max({worst, std::abs(actual[k] - right[k]), std::abs(twice[k] - 2 * right[k])});
    }
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
  for (double difference : largest) BOOST_TEST(difference == 0);
}

BOOST_AUTO_TEST_SUITE_END()
