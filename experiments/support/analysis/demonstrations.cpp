// Small computations that need no run: windows between pointers, a step of flexible attention, weights by position.
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/analysis/run_flags.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/program/cli.h"

namespace fovea {

namespace {

using Values = std::vector<double>;

/// A table with a row for each name, and a column for each of its numbers.
Table table_of_rows(const Columns& rows, int decimals) {
  std::vector<std::string> headings{""};
  for (std::size_t k = 0; k < rows.front().second.size(); ++k) headings.push_back(std::to_string(k));
  Table table(headings);
  for (const auto& [name, values] : rows) {
    std::vector<Cell> cells{name};
    for (double value : values) cells.push_back(Cell::number(value, decimals));
    table.row(cells);
  }
  return table;
}

LineChart chart_of_rows(const std::string& title, const Columns& rows) {
  LineChart chart{.title = title, .x = {"key"}};
  for (const auto& [name, values] : rows) chart.series.push_back(curve_of(name, values));
  return chart;
}

/// Runs an attention with one head, and returns its inputs, parameters and results by name. All queries are 1. Keys of
/// another number than the queries are 0. `given` has further inputs, and parameters.
std::map<std::string, Values> computed(const std::string& method, Place place, std::int64_t queries, std::int64_t keys,
                                       CaseTensors given = {}) {
  AttentionCase options{.method = method, .place = place, .precision = AttentionCase::Precision::f64, .weights = true};
  given.emplace_back("query", Tensor::full({1, queries, 1}, 1, DType::f64));
  if (keys != queries) given.emplace_back("key", Tensor::zeros({1, keys, 1}, DType::f64));
  std::map<std::string, Values> all;
  for (const auto& [name, tensor] : attend_case(options, {.source = method, .tensors = given, .metadata = {}}))
    all[name] = tensor.to_vector<double>();
  return all;
}

}  // namespace

Finding window_demonstration(Cli& cli) {
  int left = 2, right = 7, length = 10, segment = 1;
  std::string mask = "paper";
  cli.option("--left", left, "position of the left pointer, from 0").at_least(0);
  cli.option("--right", right, "position of the right pointer, from 0").at_least(0);
  cli.option("--length", length, "number of keys").range(2, 200);
  cli.option("--segment", segment, "number of keys in a segment").at_least(1);
  cli.option("--mask", mask, "how the mask is computed").one_of({"paper", "exact", "prob_or", "discrete"});
  cli.parse();
  require(left < length && right < length, "--left {} and --right {}: must be below --length {}", left, right, length);
  // the mass of a pointer up to the end, or from the start on, of each key's segment
  const auto row = [&](const auto& holds) {
    Values values;
    for (int j = 0; j < length; ++j) values.push_back(holds(j, j / segment * segment) ? 1 : 0);
    return values;
  };
  const auto up_to_end = [&](int at) { return row([&](int, int first) { return at < first + segment; }); };
  const auto from_start = [&](int at) { return row([&](int, int first) { return at >= first; }); };
  const auto pointer = [](std::int64_t at) { return Tensor::from(std::vector<std::int64_t>{at}, {1, 1, 1}); };
  const auto all =
      computed(fmt::format("classic(window(pointers=given, segment={}, mask={}))", segment, mask), Place::cross, 1,
               length, {{"left_pointer", pointer(left)}, {"right_pointer", pointer(right)}});
  const Columns rows{{"φ left", row([&](int j, int) { return j == left; })},
                     {"φ right", row([&](int j, int) { return j == right; })},
                     {"F left", up_to_end(left)},
                     {"S right", from_start(right)},
                     {"F right", up_to_end(right)},
                     {"S left", from_start(left)},
                     {"mask m", all.at("window")}};
  return {.title = fmt::format("The window between two pointers, segments of {}", segment),
          .notes = {"F sums a pointer up to the end of each key's segment, S from its start on. "
                    "m = F left · S right + F right · S left (Nguyen et al. 2020, eq. 9); keys count from 0."},
          .tables = {{"", table_of_rows(rows, 4)}},
          .figures = {chart_of_rows("Pointers, sums and mask", rows)}};
}

Finding flexible_demonstration(Cli& cli) {
  Values scores{.2, 1, .5, 2, .1, -.3, .8, 0};
  double focus = 2.25, gate = .6, sigma = 1.5, threshold = 1.2;
  cli.option("--scores", scores, "scores of the keys, separated by commas");
  cli.option("--focus", focus, "the focus of the step before, from 0");
  cli.option("--gate", gate, "the gate g").range(0, 1);
  cli.option("--sigma", sigma, "in tokens").positive();
  cli.option("--threshold", threshold, "keys with a smaller penalty are scored").positive();
  cli.parse();
  require(scores.size() >= 2, "--scores: needs at least two numbers");
  const auto n = std::ssize(scores);
  const auto weights_below = [&](double limit) {  // the gate is the sigmoid of its bias alone
    return computed(fmt::format("classic(location(longest={}) + flexible(sigma={}, threshold={}))", n, sigma, limit),
                    Place::cross, 1, n,
                    {{"previous_focus", Tensor::of({focus}, {1})},
                     {"location.weight", Tensor::from(scores, {1, n})},
                     {"flexible.gate_projection", Tensor::of({0}, {1, 1})},
                     {"flexible.gate_vector", Tensor::of({0}, {1})},
                     {"flexible.gate_bias", Tensor::of({std::log(gate / (1 - gate))}, {1})}});
  };
  const auto all = weights_below(HUGE_VAL), chosen = weights_below(threshold);
  const double first = chosen.at("range")[0], last = chosen.at("range")[1];
  Values penalty, seen;
  for (std::int64_t s = 0; s < n; ++s) {
    const double distance = double(s) - focus;
    penalty.push_back(gate * distance * distance / (2 * sigma * sigma));
    seen.push_back(double(s) >= first && double(s) <= last ? 1 : 0);
  }
  Table steps({"", "value"});
  steps.row({"first key of the window", int(first)}).row({"last key", int(last)});
  steps.row({"keys that are scored", int(last - first + 1)});
  steps.row({"next focus, all keys", Cell::number(all.at("focus")[0], 6)});
  steps.row({"next focus, window", Cell::number(chosen.at("focus")[0], 6)});
  LineChart penalties = chart_of_rows("Penalty and threshold", {{"penalty", penalty}});
  penalties.series.push_back(
      {.name = "threshold", .x = {0, double(n - 1)}, .y = {threshold, threshold}, .dashed = true});
  return {.title = "One step of flexible attention",
          .notes = {fmt::format("Keys whose penalty g (s - p)² / (2 sigma²) is below the threshold {} are scored; the "
                                "gate g is {}, the focus p {}, sigma {}.",
                                threshold, gate, focus, sigma)},
          .tables = {{"keys", table_of_rows({{"score", scores},
                                             {"penalty", penalty},
                                             {"weight, all keys", all.at("weights")},
                                             {"in the window", seen},
                                             {"weight, window", chosen.at("weights")}},
                                            6)},
                     {"window", steps}},
          .figures = {penalties, chart_of_rows("Weights", {{"all keys", all.at("weights")},
                                                           {"keys in the window", chosen.at("weights")}})}};
}

Finding location_demonstration(Cli& cli) {
  int length = 20;
  Values scales{1, 2};
  bool normalize = false;
  cli.option("--length", length, "number of queries and keys").range(1, 200);
  cli.option("--scale", scales, "b of Laplace and sigma of Gaussian weights, in tokens").positive();
  cli.option("--normalize", normalize, "divide by the sum of each row");
  cli.parse();
  std::vector<std::pair<std::string, std::string>> methods{{"mean", "mean"}};
  for (auto [name, method] : {std::pair("Laplace, b", "laplace"), {"Gaussian, sigma", "gaussian_location"}})
    for (double scale : scales)
      methods.emplace_back(fmt::format("{} = {}", name, scale),
                           fmt::format("{}(scale={}, normalize={})", method, scale, normalize));
  Columns rows;
  for (const auto& [name, method] : methods) {
    const Values weights = computed("classic(" + method + ")", Place::encoder, length, length).at("weights");
    const auto middle = weights.begin() + length / 2 * length;
    rows.emplace_back(name, Values(middle, middle + length));
  }
  return {.title = "Weights by position alone",
          .notes = {fmt::format("The row of query {} of {}.", length / 2, length)},
          .tables = {{"", table_of_rows(rows, 4)}},
          .figures = {chart_of_rows("Weights of one query", rows)}};
}

}  // namespace fovea
