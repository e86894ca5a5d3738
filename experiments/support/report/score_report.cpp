#include "experiments/support/report/score_report.h"

#include <algorithm>

namespace fovea {

namespace {

/// "1.20 to 3.45", in the row's decimals; empty without the interval.
Cell interval_cell(const Json& row, const char* low, const char* high) {
  if (!row.contains(low)) return {};
  return fmt::format("{1:.{0}f} to {2:.{0}f}", row["decimals"].get<int>(), row[low].get<double>(),
                     row[high].get<double>());
}

Cell number_cell(const Json& row, const char* key, int decimals) {
  return row.contains(key) ? Cell::number(row[key], decimals) : Cell();
}

bool has_several(const std::vector<Json>& rows) {
  return std::ranges::any_of(rows, [](const Json& row) { return row.contains("difference"); });
}

}  // namespace

std::vector<Json> score_rows(const std::vector<std::string>& systems, const std::vector<std::vector<TextScore>>& scores,
                             const BootstrapOptions& options) {
  std::vector<Json> rows;
  for (std::size_t k = 0; k < scores.front().size(); ++k) {
    const SummedMetric& first = scores.front()[k].metric;
    for (std::size_t s = 0; s < systems.size(); ++s) {
      const auto& [name, metric, decimals, line] = scores[s][k];
      Json& row = rows.emplace_back(
          Json{{"metric", name}, {"system", systems[s]}, {"value", metric.value()}, {"decimals", decimals}});
      if (options.resamples > 0) {
        const Interval interval = bootstrap_interval(metric, options);
        row.update({{"low", interval.low}, {"high", interval.high}});
      }
      if (s > 0) row["difference"] = metric.value() - first.value();
      if (s > 0 && options.resamples > 0) {
        const PairedBootstrap test = paired_bootstrap(first, metric, options);
        row.update({{"difference_low", test.interval.low},
                    {"difference_high", test.interval.high},
                    {"p", test.p},
                    {"p_koehn", test.p_koehn}});
      }
      if (!line.empty()) row["line"] = line;
    }
  }
  return rows;
}

Table table_of_scores(const std::vector<Json>& rows) {
  const bool several = has_several(rows);
  Table table(several ? std::vector<std::string>{"metric", "system", "value", "difference", "its 95 % interval", "p"}
                      : std::vector<std::string>{"metric", "value", "95 % interval"});
  for (const Json& row : rows) {
    const int decimals = row["decimals"];
    const std::string metric = row["metric"], system = row["system"];
    const Cell value = Cell::number(row["value"], decimals);
    if (several && !row.contains("difference") && &row != &rows.front()) table.rule();
    several ? table.row({metric, system, value, number_cell(row, "difference", decimals),
                         interval_cell(row, "difference_low", "difference_high"), number_cell(row, "p", 3)})
            : table.row({metric, value, interval_cell(row, "low", "high")});
  }
  return table;
}

std::string score_table(const std::vector<Json>& rows) {
  std::string text = table_of_scores(rows).text();
  for (const Json& row : rows)
    if (row.contains("line"))
      text +=
          (has_several(rows) ? row["system"].get<std::string>() + ": " : "") + row["line"].get<std::string>() + "\n";
  return text;
}

}  // namespace fovea
