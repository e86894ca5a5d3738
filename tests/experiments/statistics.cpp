#include "experiments/support/metrics/statistics.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/seeded_difference.h"
#include "experiments/support/text/split_mix.h"
#include "tests/files.h"

using namespace fovea;

/// Scores of 0 and 1 with the given accuracy, the same for everybody.
static std::vector<double> accuracy_scores(std::size_t examples, double accuracy, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<double> scores;
  for (std::size_t i = 0; i < examples; ++i) scores.push_back(double(random.below(1000)) < 1000 * accuracy);
  return scores;
}

namespace {

/// Systems whose metric is the mean of these scores.
PairedBootstrap compared(const std::vector<double>& baseline, const std::vector<double>& challenger,
                         const BootstrapOptions& options = {}) {
  return paired_bootstrap(mean_metric(baseline), mean_metric(challenger), options);
}

/// About normal, with variance 1: the sum of twelve uniform numbers.
double noise(SplitMix& random) {
  double sum = -6;
  for (int k = 0; k < 12; ++k) sum += double(random.below(1 << 20)) / (1 << 20);
  return sum;
}

/// How hard each example is, and how well each of two systems suits it.
struct Examples {
  std::vector<double> ease, suits[2];
};

/// Scores of a system that is better by `level`, trained with seeds that have effects on all systems.
SeededScore made_up(const Examples& examples, int system, double level, double between_seeds,
                    const std::vector<double>& effects, SplitMix& random) {
  SeededScore score;
  for (double effect : effects) {
    score.seeds.push_back(score.seeds.size() + 1);
    const double of_seed = level + effect + between_seeds * noise(random);
    std::vector<double> scores;
    for (std::size_t i = 0; i < examples.ease.size(); ++i)
      scores.push_back(of_seed + examples.ease[i] + 0.5 * examples.suits[system][i] + noise(random));
    score.metrics.push_back(mean_metric(std::move(scores)));
    score.values.push_back(score.metrics.back().value());
  }
  return score;
}

/// Intervals of made-up differences of 1 between two of four systems.
struct Intervals {
  double covered = 0;  ///< the fraction that contain 1
  double width = 0;    ///< mean
};
Intervals made_up_intervals(double between_seeds, int seeds, double of_seeds = 0) {
  SplitMix random(21);
  Intervals intervals;
  constexpr int trials = 200;
  for (int trial = 0; trial < trials; ++trial) {
    Examples examples;
    for (int i = 0; i < 100; ++i) {
      examples.ease.push_back(3 * noise(random));
      for (std::vector<double>& suits : examples.suits) suits.push_back(noise(random));
    }
    std::vector<double> effects(std::size_t(seeds), 0);
    if (of_seeds > 0)
      for (double& effect : effects) effect = of_seeds * noise(random);
    std::vector<SeededScore> rows;
    for (int row = 0; row < 4; ++row)
      rows.push_back(made_up(examples, row % 2, row % 2, between_seeds, effects, random));
    const BootstrapOptions options{.resamples = 200, .seed = std::uint64_t(trial)};
    const auto [low, high] = seeded_difference(rows[1], rows[0], seed_spread(rows, options), options).interval();
    intervals.covered += double(low < 1 && 1 < high) / trials;
    intervals.width += (high - low) / trials;
  }
  return intervals;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(statistics)

BOOST_AUTO_TEST_CASE(students_quantiles_are_those_of_tables) {
  const auto close = boost::test_tools::tolerance(0.005);
  for (const auto& [degrees, t] : {std::pair(1.0, 12.706), {2.0, 4.303}, {4.0, 2.776}, {10.0, 2.228}, {1e9, 1.960}})
    BOOST_TEST(student_quantile(0.95, degrees) == t, close);
  BOOST_TEST(student_quantile(0.99, 3) == 5.841, close);
  BOOST_TEST(contains(message_of([] { student_quantile(0.95, 0); }), "0 degrees of freedom"));
}

BOOST_AUTO_TEST_CASE(intervals_of_differences_contain_the_true_one_as_often_as_promised) {
  for (const auto& [between_seeds, seeds] : {std::pair(0.0, 2), {0.0, 1}, {0.5, 2}, {0.2, 3}}) {
    const double covered = made_up_intervals(between_seeds, seeds).covered;
    BOOST_TEST(covered > 0.92, fmt::format("{} between {} seeds: {}", between_seeds, seeds, covered));
    BOOST_TEST(covered < 0.99, fmt::format("{} between {} seeds: {}", between_seeds, seeds, covered));
  }
  BOOST_TEST(made_up_intervals(0.5, 1).covered < 0.7);  // one seed cannot say what another would change
}

BOOST_AUTO_TEST_CASE(what_a_seed_does_to_all_rows_does_not_widen_the_intervals_of_their_differences) {
  const Intervals alone = made_up_intervals(0.2, 3), shared = made_up_intervals(0.2, 3, 1.5);
  BOOST_TEST(shared.covered > 0.92);
  BOOST_TEST(shared.covered < 0.99);
  BOOST_TEST(shared.width == alone.width, boost::test_tools::tolerance(0.1));

  // Rows with other seeds have no such luck: the interval covers what any seed does.
  std::vector<SeededScore> rows;
  for (double row : {0.0, 3.0, 1.0, 7.0}) rows.push_back({.values = {row, row + 2.1 + 0.1 * row}, .seeds = {1, 2}});
  const SeedSpread spread = seed_spread(rows);
  const auto width = [&](const SeededScore& a, const SeededScore& b) {
    const auto [low, high] = seeded_difference(a, b, spread).interval();
    return high - low;
  };
  const double paired = width(rows[0], rows[1]);
  BOOST_TEST(paired < 2);
  rows[1].seeds = {1, 3};
  BOOST_TEST(width(rows[0], rows[1]) > 4);
  rows[1].seeds = {};
  BOOST_TEST(width(rows[0], rows[1]) > 4);
}

BOOST_AUTO_TEST_CASE(a_row_whose_seeds_differ_much_more_than_others_counts_with_its_own_spread) {
  // accuracies of tasks that plain attention sometimes learns late
  std::vector<SeededScore> rows;
  for (const std::vector<double>& values : {std::vector{98.62, 99.57, 99.78},
                                            {99.98, 99.99, 100.0},
                                            {99.97, 99.95, 99.99},
                                            {99.86, 99.9, 99.81},
                                            {99.95, 99.9, 99.92},
                                            {99.99, 99.93, 99.96},
                                            {99.8, 99.84, 99.78}})
    rows.push_back({.values = values, .seeds = {1, 2, 3}});
  const SeedSpread spread = seed_spread(rows);
  BOOST_TEST(spread.within_rows.degrees == 12);
  BOOST_TEST(spread.within_rows.variance < 0.002);
  const SeededDifference uneven = seeded_difference(rows[1], rows[0], spread),
                         even = seeded_difference(rows[1], rows[6], spread);
  BOOST_TEST(uneven.value == 2 / 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(uneven.degrees == 2, boost::test_tools::tolerance(0.05));
  BOOST_TEST(uneven.interval().high - uneven.value == 1.53, boost::test_tools::tolerance(0.02));
  BOOST_TEST(even.interval().low > 0.1);
}

BOOST_AUTO_TEST_CASE(the_part_of_the_examples_is_taken_from_the_seeds_only_where_it_is_added) {
  // Two rows whose seeds differ by chance alone: all that they vary by comes from the examples.
  SplitMix random(3);
  std::vector<SeededScore> rows;
  for (int row = 0; row < 60; ++row) {
    SeededScore score;
    for (int seed = 1; seed <= 2; ++seed) {
      std::vector<double> scores;
      for (int i = 0; i < 400; ++i) scores.push_back(noise(random));
      score.metrics.push_back(mean_metric(std::move(scores)));
      score.values.push_back(score.metrics.back().value());
      score.seeds.push_back(std::uint64_t(seed));
    }
    rows.push_back(std::move(score));
  }
  const SeedSpread spread = seed_spread(rows);
  for (const SeedSpread::Part& part : {spread.paired, spread.within_rows}) {
    BOOST_TEST(part.from_examples == 1.0 / 400, boost::test_tools::tolerance(0.1));
    BOOST_TEST(part.variance == 1.0 / 400, boost::test_tools::tolerance(0.4));
  }
  SeededScore without = rows[0];
  without.metrics.clear();
  const double error = seeded_difference(without, rows[1], spread).standard_error;
  BOOST_TEST(error * error == spread.paired.variance, boost::test_tools::tolerance(1e-9));  // s^2 (1 / 2 + 1 / 2)
}

BOOST_AUTO_TEST_CASE(a_visible_difference_is_found_four_times_of_five) {
  const SeededDifference many{.value = 0, .standard_error = 1}, few{.value = 0, .standard_error = 1, .degrees = 4};
  BOOST_TEST(many.visible() == 2.80, boost::test_tools::tolerance(0.005));
  BOOST_TEST(few.visible() == 2.776 + 0.941, boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_CASE(a_measurement_without_examples_has_an_interval_only_with_seeds) {
  const SeededScore one{.values = {5}}, other{.values = {6}}, twice{.values = {5, 5}}, more{.values = {7, 7}};
  const SeededDifference unknown = seeded_difference(one, other, seed_spread(std::vector{one, other}));
  BOOST_TEST(unknown.value == -1);
  BOOST_TEST(std::isnan(unknown.interval().low));
  const SeededDifference exact = seeded_difference(more, twice, seed_spread(std::vector{twice, more}));
  BOOST_TEST(exact.interval().low == 2);
  BOOST_TEST(exact.interval().high == 2);
}

BOOST_AUTO_TEST_CASE(small_samples_have_known_statistics) {
  std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  BOOST_TEST(mean(values) == 5.0);
  BOOST_TEST(sample_standard_deviation(values) == std::sqrt(32.0 / 7), boost::test_tools::tolerance(1e-14));
  BOOST_TEST(percentile(values, 0) == 2.0);
  BOOST_TEST(percentile(values, 1) == 9.0);
  BOOST_TEST(percentile(values, 0.5) == 4.5);
  BOOST_TEST(std::isnan(percentile({1, std::nan(""), 0}, 0.5)));
  BOOST_TEST(std::isnan(mean({})));
  BOOST_TEST(std::isnan(sample_standard_deviation(std::vector<double>{3})));
}

BOOST_AUTO_TEST_CASE(a_system_against_itself_is_not_significant) {
  for (std::uint64_t seed : {1, 2, 3}) {
    const auto scores = accuracy_scores(1821, 0.8, seed);
    const PairedBootstrap test = compared(scores, scores);
    BOOST_TEST((test.difference == 0 && test.p == 1));
  }
}

BOOST_AUTO_TEST_CASE(a_much_better_system_is_significant_in_both_directions) {
  const auto weak = accuracy_scores(500, 0.6, 1), strong = accuracy_scores(500, 0.9, 2);
  const PairedBootstrap better = compared(weak, strong), worse = compared(strong, weak);
  BOOST_TEST((better.p < 0.01 && worse.p < 0.01));
  BOOST_TEST(better.difference == -worse.difference);
  BOOST_TEST(better.interval.low == -worse.interval.high, boost::test_tools::tolerance(1e-9));
  BOOST_TEST((0 < better.interval.low && better.interval.low < better.difference));
  BOOST_TEST(better.difference < better.interval.high);
}

BOOST_AUTO_TEST_CASE(equal_systems_are_called_different_about_as_often_as_promised) {
  int rejections = 0;
  for (std::uint64_t t = 0; t < 400; ++t) {
    const auto a = accuracy_scores(200, 0.7, 1001 + 2 * t), b = accuracy_scores(200, 0.7, 1002 + 2 * t);
    rejections += compared(a, b, {.resamples = 200, .seed = t}).p < 0.05;
  }
  BOOST_TEST(std::abs(rejections - 20) < 14);  // 3 standard deviations of the binomial distribution
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_numbers_everywhere) {
  const auto a = accuracy_scores(300, 0.7, 1), b = accuracy_scores(300, 0.75, 2);
  const PairedBootstrap first = compared(a, b), again = compared(a, b);
  BOOST_TEST((first.p == again.p && first.interval.low == again.interval.low));
  BOOST_TEST(compared(a, b, {.seed = 5}).p != first.p);
}

BOOST_AUTO_TEST_CASE(metrics_that_are_no_means_are_resampled_whole) {
  const auto ratio = [](std::vector<double> pairs) {
    return SummedMetric{.width = 2, .statistics = std::move(pairs), .of_sums = [](auto s) { return s[1] / s[0]; }};
  };
  const PairedBootstrap test =
      paired_bootstrap(ratio({1, 1, 5, 5, 2, 2, 8, 8, 3, 3}), ratio({1, 2, 5, 7, 2, 1, 8, 9, 3, 3}));
  BOOST_TEST(test.difference == 22.0 / 19 - 1, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(test.interval.low < test.interval.high);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_resampled_is_refused) {
  const std::vector<double> one{1}, two{1, 0};
  BOOST_TEST(contains(message_of([&] { compared(one, two); }), "1 examples of the baseline, 2 of the challenger"));
  BOOST_TEST(contains(message_of([&] { compared({}, {}); }), "no examples"));
  BOOST_TEST(contains(message_of([&] { bootstrap_interval(mean_metric(two), {.resamples = 0}); }), "0 resamples"));
  BOOST_TEST(compared({std::nan(""), 1}, two).p == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()
