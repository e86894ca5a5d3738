// The command `analyze compute`: attentions on numbers from the command line, for small figures of the papers that need
// no trained run.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "attention/engine/attend.h"
#include "attention/registry.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// NAME=NUMBER,NUMBER,...: one input or parameter. A pointer is a position, or a probability for each key.
std::pair<std::string, Tensor> tensor_of(const std::string& given) {
  const std::size_t equals = given.find('=');
  require(equals != given.npos && equals > 0, "--set '{}': expected NAME=NUMBER,NUMBER,...", given);
  const std::string name = given.substr(0, equals);
  std::vector<double> numbers;
  for (const std::string_view text : split_columns(std::string_view(given).substr(equals + 1), ',')) {
    const std::optional<double> one = number<double>(std::string(text));
    require(one && !std::isnan(*one), "--set '{}': '{}' is not a number", given, text);
    numbers.push_back(*one);
  }
  const auto count = std::ssize(numbers);
  if (!name.ends_with("_pointer")) return {name, Tensor::from(numbers, {count})};
  if (count > 1) return {name, Tensor::from(numbers, {1, 1, 1, count})};
  require(std::isfinite(numbers[0]) && numbers[0] == std::trunc(numbers[0]),
          "--set '{}': a position among the keys is a whole number", given);
  return {name, Tensor::from(numbers, {1, 1, 1}).to(DType::i64)};
}

/// The results of an attention with one head: the weights and the quantities of its method. Unless given, a query is 1;
/// a key is 1 in self-attention (as many keys as queries) and 0 otherwise.
CaseTensors results_of(const std::string& specification, int queries, int keys, const CaseTensors& given) {
  const NoGrad off;
  const TracedEquationScope parts;
  AttentionCase options{.method = "classic(" + specification + ")", .precision = AttentionCase::Precision::f64};
  options.weights = true;
  CaseTensors inputs{{"query", Tensor::full({1, queries, 1}, 1, DType::f64)}};
  if (keys != queries) inputs.emplace_back("key", Tensor::zeros({1, keys, 1}, DType::f64));
  inputs.insert(inputs.end(), given.begin(), given.end());
  CaseTensors all = attend_case(options, {.source = "--set", .tensors = inputs, .metadata = {}});
  const auto output = std::ranges::find(all, "output", &CaseTensors::value_type::first);
  return {output + 1, all.end()};
}

}  // namespace

Finding computation(Cli& cli) {
  std::string specifications, what;
  std::vector<std::string> given;
  int queries = 1, keys = 10;
  cli.option("ATTENTIONS", specifications,
             "attentions without projections, separated by semicolons, as in \"dot + gaussian_location; laplace\"");
  cli.option("--set", given,
             "NAME=NUMBER,NUMBER,...: an input or parameter of all attentions, which `attend --describe` lists; may be "
             "given several times. Without it a query is 1, and a key too in self-attention, otherwise 0");
  cli.option("--queries", queries, "number of queries; as many as keys: self-attention").range(1, 200);
  cli.option("--keys", keys, "number of keys").range(2, 200);
  cli.option("--what", what, "the quantities that are shown, separated by commas; default: all");
  cli.parse();
  require(!trimmed(specifications).empty(), "ATTENTIONS are missing, as in \"dot + gaussian_location; laplace\"");
  std::set<std::string> shown, known;
  for (const std::string_view name : split_columns(what, ',')) shown.insert(trimmed(name));
  CaseTensors tensors;
  for (const std::string& one : given) tensors.push_back(tensor_of(one));
  std::vector<std::string> headings{""};
  for (int key = 0; key < keys; ++key) headings.push_back(std::to_string(key));
  Table of_keys(headings), of_query({"", "value"});
  LineChart chart{.title = "Numbers of the keys", .x = {"key"}};
  const std::vector<std::string_view> all = split_columns(specifications, ';');
  for (const std::string_view each : all)
    for (const auto& [quantity, tensor] : results_of(trimmed(each), queries, keys, tensors)) {
      known.insert(quantity);
      if (!what.empty() && !shown.contains(quantity)) continue;
      const std::string name = (all.size() > 1 ? trimmed(each) + ": " : "") + quantity;
      const std::vector<double> values = tensor.to_vector<double>();
      const std::int64_t columns = tensor.rank() > 3 ? tensor.size(3) : 1, rows = std::ssize(values) / columns;
      const auto row = values.begin() + (rows < queries ? 0 : queries / 2 * columns);  // of the query in the middle
      if (columns == keys) {
        std::vector<Cell> cells{name};
        for (int key = 0; key < keys; ++key) cells.push_back(Cell::number(row[key], 6));
        of_keys.row(std::move(cells));
        chart.series.push_back(curve_of(name, {row, row + keys}));
      } else if (rows == 1 || rows >= queries) {
        for (std::int64_t k = 0; k < columns; ++k)
          of_query.row({columns > 1 ? fmt::format("{} {}", name, k) : name, Cell::number(row[k], 6)});
      }
    }
  for (const std::string& name : shown)
    require(name.empty() || known.contains(name), "--what: '{}' is not computed; there are {}", name,
            fmt::join(known, ", "));
  Finding finding{.title = "What " + specifications + " computes", .tables = {{"keys", of_keys}}, .figures = {chart}};
  if (!of_query.is_empty()) finding.tables.push_back({"query", of_query});
  if (queries > 1) finding.notes = {fmt::format("The row of query {} of {}.", queries / 2, queries)};
  return finding;
}

}  // namespace fovea
