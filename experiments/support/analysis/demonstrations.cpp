// Small computations that need no run: windows between pointers, a step of flexible attention, weights by position.

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "attention/formula/focus.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/analysis/run_flags.h"
#include "experiments/support/program/cli.h"

namespace fovea {

namespace {

using Values = std::vector<double>;

std::vector<std::string> numbered(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < count; ++k) names.push_back(std::to_string(k));
  return names;
}

/// A table with a row for each name, and a column for each of its numbers; the same as a map.
Table table_of_rows(const Columns& rows, int decimals) {
  std::vector<std::string> headings{""};
  for (const std::string& key : numbered(std::ssize(rows.front().second))) headings.push_back(key);
  Table table(headings);
  for (const auto& [name, values] : rows) {
    std::vector<Cell> cells{name};
    for (double value : values) cells.push_back(Cell::number(value, decimals));
    table.row(cells);
  }
  return table;
}
HeadMaps map_of_rows(const std::string& title, const Columns& rows) {
  HeadMaps map{.title = title, .keys = numbered(std::ssize(rows.front().second)), .heads = {{}}, .query_label = "row"};
  for (const auto& [name, values] : rows) {
    map.queries.push_back(name);
    map.heads[0].values.insert(map.heads[0].values.end(), values.begin(), values.end());
  }
  return map;
}

/// The trace of an attention of states that are all 0.
AttentionTrace traced(const std::string& specification, std::int64_t queries, std::int64_t keys, Place place,
                      const Variable& left = {}, const Variable& right = {}) {
  NoGrad off;
  AttentionTrace trace;
  const auto attention = attention_factory(specification)({.model_dim = 1, .heads = 1, .place = place});
  attention->train(false);
  const Tensor key = Tensor::zeros({1, keys, 1}, DType::f64);
  const Variable states = key, query = queries == keys ? states : Variable(Tensor::zeros({1, queries, 1}, DType::f64));
  AttentionInput input{.query = query, .key = states, .value = states};
  input.left_pointer = left, input.right_pointer = right, input.trace = &trace;
  attention->forward(input);
  return trace;
}

/// The distribution, or one with all mass at a position.
std::vector<double> pointer(const std::vector<double>& given, int position, int length, const char* flag) {
  require(given.empty() || std::abs(std::accumulate(given.begin(), given.end(), 0.0) - 1) < 1e-6,
          "{}-pointer: the numbers must sum to 1", flag);
  require(!given.empty() || (position >= 0 && position < length), "{} {}: must be at least 0 and below --length {}",
          flag, position, length);
  std::vector<double> all(static_cast<std::size_t>(length), 0);
  if (given.empty()) all[static_cast<std::size_t>(position)] = 1;
  return given.empty() ? all : given;
}

}  // namespace

Finding window_demonstration(Cli& cli) {
  int left_position = 2, right_position = 7, length = 10, segment = 1;
  Values left_pointer, right_pointer;
  std::string mask = "paper";
  cli.option("--left", left_position, "position of the left pointer, from 0").at_least(0);
  cli.option("--right", right_position, "position of the right pointer, from 0").at_least(0);
  cli.option("--length", length, "number of keys").range(1, 200);
  cli.option("--left-pointer", left_pointer, "a distribution over the keys, in the place of --left").range(0, 1);
  cli.option("--right-pointer", right_pointer, "a distribution over the keys, in the place of --right").range(0, 1);
  cli.option("--segment", segment, "number of keys in a segment").at_least(1);
  cli.option("--mask", mask, "how the mask is computed").one_of({"paper", "exact", "prob_or", "discrete"});
  cli.parse();
  require(left_pointer.size() == right_pointer.size(),
          "--left-pointer has {} numbers and --right-pointer {}; they need one for each key", left_pointer.size(),
          right_pointer.size());
  const int n = left_pointer.empty() ? length : static_cast<int>(left_pointer.size());
  const Values left = pointer(left_pointer, left_position, n, "--left"),
               right = pointer(right_pointer, right_position, n, "--right");
  // mass up to the end, and from the start, of each key's segment
  const auto mass = [&](const std::vector<double>& of, bool up_to_end) {
    std::vector<double> sums;
    for (int j = 0; j < n; ++j) {
      const int first = j / segment * segment, end = std::min(first + segment, n);
      sums.push_back(up_to_end ? std::accumulate(of.begin(), of.begin() + end, 0.0)
                               : std::accumulate(of.begin() + first, of.end(), 0.0));
    }
    return sums;
  };
  // a position if all mass is there, which mask=discrete needs
  const auto input = [&](const std::vector<double>& given, int position) -> Variable {
    if (given.empty()) return Tensor::from(std::vector<std::int64_t>{position}, {1, 1, 1});
    return Tensor::from(given, {1, 1, 1, n});
  };
  const AttentionTrace trace =
      traced(fmt::format("classic(window(pointers=given, segment={}, mask={}))", segment, mask), 1, n, Place::cross,
             input(left_pointer, left_position), input(right_pointer, right_position));
  const AttentionView view = view_of(trace, Place::cross, {"query"}, numbered(n));
  const Columns rows{{"φ left", left},
                     {"φ right", right},
                     {"F left", mass(left, true)},
                     {"S right", mass(right, false)},
                     {"F right", mass(right, true)},
                     {"S left", mass(left, false)},
                     {"mask m", view.at("window").values}};
  return {.title = fmt::format("The window between two pointers, segments of {}", segment),
          .notes = {"F sums a pointer up to the end of each key's segment, S from its start on. "
                    "m = F left · S right + F right · S left (Nguyen et al. 2020, eq. 9); keys count from 0."},
          .tables = {{"", table_of_rows(rows, 4)}},
          .figures = {map_of_rows("Pointers, sums and mask", rows)}};
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
  require(!scores.empty(), "--scores: needs at least one number");
  const auto n = std::ssize(scores);
  AttentionContext in;
  in.query = Tensor::zeros({1, 1, 1, 1}, DType::f64);
  in.key = Tensor::zeros({1, 1, n, 1}, DType::f64);
  in.key_positions = Tensor::arange(n, DType::f64);
  const Tensor score_tensor = Tensor::from(scores, {1, 1, 1, n});
  const auto weights_below = [&](double limit) {
    const FocusedSoftmax form{.sigma = sigma,
                              .threshold = limit,
                              .gate = Tensor::full({1, 1, 1}, gate, DType::f64),
                              .previous = Tensor::full({1, 1}, focus, DType::f64)};
    return focused_softmax(form, score_tensor, {}, in);
  };
  const FocusedWeights all = weights_below(HUGE_VAL), chosen = weights_below(threshold);
  const FocusWindow window = focus_window(focus, gate, sigma, threshold, n);
  std::vector<double> penalty, seen;
  for (std::int64_t s = 0; s < n; ++s) {
    const double distance = double(s) - focus;
    penalty.push_back(gate * distance * distance / (2 * sigma * sigma));
    seen.push_back(s >= window.first && s <= window.last ? 1 : 0);
  }
  const auto values = [](const Variable& x) { return x.value().to_vector<double>(); };
  Table steps({"", "value"});
  steps.row({"first key of the window", window.first}).row({"last key", window.last});
  steps.row({"keys that are scored", window.last - window.first + 1});
  steps.row({"next focus, all keys", Cell::number(values(all.focus)[0], 6)});
  steps.row({"next focus, window", Cell::number(values(chosen.focus)[0], 6)});
  return {
      .title = "One step of flexible attention",
      .notes = {fmt::format("Keys whose penalty g (s - p)² / (2 sigma²) is below the threshold {} are scored; the "
                            "gate g is {}, the focus p {}, sigma {}.",
                            threshold, gate, focus, sigma)},
      .tables = {{"keys", table_of_rows({{"score", scores},
                                         {"penalty", penalty},
                                         {"weight, all keys", values(all.weights)},
                                         {"in the window", seen},
                                         {"weight, window", values(chosen.weights)}},
                                        6)},
                 {"window", steps}},
      .figures = {
          LineChart{
              .title = "Penalty and threshold",
              .x = {"key"},
              .y = {"penalty"},
              .series = {curve_of("penalty", penalty),
                         {.name = "threshold", .x = {0, double(n - 1)}, .y = {threshold, threshold}, .dashed = true}}},
          LineChart{.title = "Weights",
                    .x = {"key"},
                    .y = {"weight"},
                    .series = {curve_of("all keys", values(all.weights), true),
                               curve_of("keys in the window", values(chosen.weights))}}}};
}

Finding location_demonstration(Cli& cli) {
  int length = 20;
  Values scales{1, 2};
  bool normalize = false;
  cli.option("--length", length, "number of queries and keys").range(1, 200);
  cli.option("--scale", scales, "b of Laplace and sigma of Gaussian weights, in tokens").positive();
  cli.option("--normalize", normalize, "divide by the sum of each row");
  cli.parse();
  const auto n = static_cast<std::size_t>(length);
  Columns rows;  // of the query in the middle
  Finding finding{.title = "Weights by position alone", .notes = {fmt::format("The row of query {} of {}.", n / 2, n)}};
  std::vector<Chart> maps;
  const auto add = [&](const std::string& name, const std::string& method) {
    const std::vector<double> weights =
        traced("classic(" + method + ")", length, length, Place::encoder).weights.value().to_vector<double>();
    const auto middle = weights.begin() + static_cast<std::ptrdiff_t>(n / 2 * n);
    rows.emplace_back(name, std::vector<double>(middle, middle + static_cast<std::ptrdiff_t>(n)));
    maps.push_back(
        HeadMaps{.title = name, .queries = numbered(length), .keys = numbered(length), .heads = {{.values = weights}}});
  };
  add("mean", "mean");
  for (auto [name, method] : {std::pair("Laplace, b", "laplace"), {"Gaussian, sigma", "gaussian_location"}})
    for (double scale : scales)
      add(fmt::format("{} = {}", name, scale), fmt::format("{}(scale={}, normalize={})", method, scale, normalize));
  LineChart curves{.title = "Weights of one query", .x = {"key"}, .y = {"weight"}};
  for (const auto& [name, values] : rows) curves.series.push_back(curve_of(name, values));
  finding.tables = {{"", table_of_rows(rows, 4)}};
  finding.figures = {curves};
  finding.figures.insert(finding.figures.end(), maps.begin(), maps.end());
  return finding;
}

}  // namespace fovea
