// The precision that cuda/attention/README.md promises, as far as it shows without a GPU.
#include <cmath>
#include <random>
#include <regex>
#include <set>

#include <boost/test/unit_test.hpp>

#include "cuda/attention/pairs.cuh"
#include "cuda/compiled.h"
#include "tests/files.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(precision)

BOOST_AUTO_TEST_CASE(options_that_cost_precision_are_those_of_the_page) {
  const std::set<std::string> language{"--std=c++20", "--device-as-default-execution-space"};
  std::set<std::string> used, named;
  for (const char* option : cuda::compile_options)
    if (!language.contains(option)) used.insert(option);
  const std::string page = contents("cuda/attention/README.md");
  const std::regex option("`(--(ftz|prec-|fmad|use_fast_math)[^` ]*)`");
  for (std::sregex_iterator found(page.begin(), page.end(), option), end; found != end; ++found)
    named.insert((*found)[1]);
  BOOST_TEST(used == named, boost::test_tools::per_element());
}

/// The largest error of approximate exponentials of logits of up to `most`, relative to the exponential.
double largest_error(float most) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<float> logit(-most, most), distance(0, 20);
  double worst = 0;
  for (int k = 0; k < 1000000; ++k) {
    const float base = logit(generator), x = std::max(-most, base - distance(generator));
    const double wanted = static_cast<double>(x) - static_cast<double>(base);
    const double got = static_cast<double>(cuda::exponent_to_base_2(x, base)) * std::log(2.0);
    worst = std::max(worst, std::abs(std::expm1(got - wanted)));
  }
  return worst;
}

BOOST_AUTO_TEST_CASE(approximate_exponentials_are_as_precise_as_the_page_says) {
  BOOST_TEST(largest_error(16) < 0x1.1p-19);
  BOOST_TEST(largest_error(128) < 0x1p-16);
}

struct Approximate {
  static constexpr bool is_approximate() { return true; }
};

BOOST_AUTO_TEST_CASE(a_maximum_that_has_not_changed_changes_nothing) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<float> logit(-128, 128);
  int inexact = 0;
  for (int k = 0; k < 1000; ++k) {
    const float maximum = logit(generator);
    BOOST_TEST((cuda::change_of_maximum<Approximate>(maximum, maximum) == 1.0F));
    inexact += cuda::exponential<Approximate>(maximum, maximum) != 1.0F;
  }
  BOOST_TEST(inexact > 100);  // what a product of 1000 tiles would be made of
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  BOOST_TEST((cuda::change_of_maximum<Approximate>(nothing, nothing) == 1.0F));
  BOOST_TEST((cuda::change_of_maximum<Approximate>(nothing, 3.0F) == 0.0F));
}

BOOST_AUTO_TEST_SUITE_END()
