#include "experiments/support/metrics/statistics.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/split_mix.h"
#include "tests/files.h"

using namespace fovea;

/// Scores of 0 and 1 with the given accuracy, the same for everybody.
static std::vector<double> accuracy_scores(std::size_t examples, double accuracy, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<double> scores;
  for (std::size_t i = 0; i < examples; ++i) scores.push_back(double(random.below(1000)) < 1000 * accuracy);
  return scores;
}

BOOST_AUTO_TEST_SUITE(statistics)

BOOST_AUTO_TEST_CASE(small_samples_have_known_statistics) {
  std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  BOOST_TEST(mean(values) == 5.0);
  BOOST_TEST(sample_standard_deviation(values) == std::sqrt(32.0 / 7), boost::test_tools::tolerance(1e-14));
  BOOST_TEST(percentile(values, 0) == 2.0);
  BOOST_TEST(percentile(values, 1) == 9.0);
  BOOST_TEST(percentile(values, 0.5) == 4.5);
  BOOST_TEST(std::isnan(mean({})));
  BOOST_TEST(std::isnan(sample_standard_deviation(std::vector<double>{3})));
}

BOOST_AUTO_TEST_CASE(a_system_against_itself_is_not_significant) {
  for (std::uint64_t seed : {1, 2, 3}) {
    auto scores = accuracy_scores(1821, 0.8, seed);
    auto test = paired_bootstrap(scores, scores);
    BOOST_TEST(test.difference == 0.0);
    BOOST_TEST(test.p_koehn == 1.0);
    BOOST_TEST(test.p_two_sided == 1.0);
    BOOST_TEST(test.p_moses == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(a_much_better_system_is_significant_and_a_worse_one_is_not_better) {
  auto weak = accuracy_scores(500, 0.6, 1), strong = accuracy_scores(500, 0.9, 2);
  auto better = paired_bootstrap(weak, strong), worse = paired_bootstrap(strong, weak);
  BOOST_TEST(better.p_koehn < 0.01);
  BOOST_TEST(better.p_two_sided < 0.01);
  BOOST_TEST(better.p_moses < 0.01);
  BOOST_TEST(worse.p_koehn > 0.99);
  BOOST_TEST(worse.p_two_sided < 0.01);  // different, in the wrong direction
  BOOST_TEST(better.difference == -worse.difference);
  BOOST_TEST(better.interval.low > 0);
  BOOST_TEST(better.interval.low < better.difference);
  BOOST_TEST(better.interval.high > better.difference);
}

BOOST_AUTO_TEST_CASE(equal_systems_are_called_different_about_as_often_as_promised) {
  int rejections = 0, one_sided = 0;
  constexpr std::uint64_t trials = 400;
  for (std::uint64_t t = 0; t < trials; ++t) {
    auto a = accuracy_scores(200, 0.7, 1001 + 2 * t), b = accuracy_scores(200, 0.7, 1002 + 2 * t);
    auto test = paired_bootstrap(a, b, {.resamples = 200, .seed = t});
    rejections += test.p_two_sided < 0.05;
    one_sided += test.p_koehn < 0.05;
  }
  BOOST_TEST(std::abs(rejections - 20) < 14);  // 3 standard deviations of the binomial distribution
  BOOST_TEST(std::abs(one_sided - 20) < 14);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_numbers_everywhere) {
  auto a = accuracy_scores(300, 0.7, 1), b = accuracy_scores(300, 0.75, 2);
  auto first = paired_bootstrap(a, b), again = paired_bootstrap(a, b);
  BOOST_TEST(first.p_koehn == again.p_koehn);
  BOOST_TEST(first.interval.low == again.interval.low);
  std::vector<double> few{0, 1, 1, 0, 1}, more{1, 1, 1, 0, 1};
  auto tiny = paired_bootstrap(few, more, {.resamples = 1000, .seed = 12345});
  // the first example is in a resample with probability 1 - 0.8^5 = 0.672
  BOOST_TEST(std::abs(tiny.p_koehn - 0.328) < 0.05);
  BOOST_TEST(paired_bootstrap(a, b, {.seed = 5}).p_koehn != first.p_koehn);
}

BOOST_AUTO_TEST_CASE(statistics_that_are_no_means_are_resampled_whole) {
  std::vector<double> a{1, 5, 2, 8, 3}, b{2, 7, 1, 9, 3};
  auto ratio = [&](std::span<const std::size_t> indices) {
    double sum_a = 0, sum_b = 0;
    for (std::size_t i : indices) sum_a += a[i], sum_b += b[i];
    return sum_b / sum_a - 1;
  };
  auto test = paired_bootstrap(5, ratio);
  BOOST_TEST(test.difference == 22.0 / 19 - 1, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(test.interval.low < test.interval.high);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_resampled_is_refused) {
  std::vector<double> one{1}, two{1, 0};
  BOOST_TEST(
      contains(message_of([&] { paired_bootstrap(one, two); }), "1 scores of the baseline, 2 of the challenger"));
  BOOST_TEST(contains(message_of([&] { paired_bootstrap({}, {}); }), "no examples"));
  BOOST_TEST(contains(message_of([&] { bootstrap_interval(two, {.resamples = 0}); }), "0 resamples"));
  std::vector<double> broken{std::nan(""), 1};
  auto test = paired_bootstrap(broken, two);
  BOOST_TEST(test.p_two_sided == 1.0);
  BOOST_TEST(test.p_moses == 1.0);
  BOOST_TEST(test.p_koehn == 1.0);
}

BOOST_AUTO_TEST_CASE(marks_are_those_of_the_papers) {
  BOOST_TEST(significance_mark(0.009) == "⇑");
  BOOST_TEST(significance_mark(0.01) == "↑");
  BOOST_TEST(significance_mark(0.05) == "");
}

BOOST_AUTO_TEST_SUITE_END()
