#include "experiments/support/report/score_report.h"

#include <algorithm>

#include "tensor/error.h"

namespace fovea {

namespace {

Cell interval_cell(const std::optional<Interval>& interval, int decimals) {
  if (!interval) return {};
  return fmt::format("{1:.{0}f} to {2:.{0}f}", decimals, interval->low, interval->high);
}

bool has_several(const std::vector<ScoreRow>& rows) {
  return std::ranges::any_of(rows, [](auto& row) { return row.difference.has_value(); });
}

}  // namespace

std::vector<ScoreRow> score_rows(const std::vector<std::string>& systems,
                                 const std::vector<std::vector<TextScore>>& scores, const BootstrapOptions& options) {
  std::vector<ScoreRow> rows;
  for (std::size_t k = 0; k < scores.front().size(); ++k) {
    const SummedMetric& first = scores.front()[k].metric;
    for (std::size_t s = 0; s < systems.size(); ++s) {
      const auto& [name, metric, decimals, line] = scores[s][k];
      ScoreRow row{name, systems[s], line, metric.value(), decimals, {}, {}, {}};
      if (s > 0) row.difference = row.value - first.value();
      if (options.resamples > 0) row.interval = bootstrap_interval(metric, options);
      if (options.resamples > 0 && s > 0) row.against_first = paired_bootstrap(first, metric, options);
      rows.push_back(row);
    }
  }
  return rows;
}

Table table_of(const std::vector<ScoreRow>& rows) {
  const bool several = has_several(rows);
  Table table(several ? std::vector<std::string>{"metric", "system", "value", "difference", "its 95 % interval", "p"}
                      : std::vector<std::string>{"metric", "value", "95 % interval"});
  for (const ScoreRow& row : rows) {
    const Cell value = Cell::number(row.value, row.decimals);
    if (!several) {
      table.row({row.metric, value, interval_cell(row.interval, row.decimals)});
      continue;
    }
    if (!row.difference && &row != &rows.front()) table.rule();
    const auto& test = row.against_first;
    table.row({row.metric, row.system, value, row.difference ? Cell::number(*row.difference, row.decimals) : Cell(),
               test ? interval_cell(test->interval, row.decimals) : Cell(), test ? Cell::number(test->p, 3) : Cell()});
  }
  return table;
}

std::string score_table(const std::vector<ScoreRow>& rows) {
  const bool several = has_several(rows);
  std::string text = table_of(rows).text();
  for (const ScoreRow& row : rows) {
    if (!row.line.empty()) text += (several ? row.system + ": " : "") + row.line + "\n";
  }
  return text;
}

Json score_json(const ScoreRow& row) {
  Json json{{"metric", row.metric}, {"system", row.system}, {"value", row.value}};
  if (row.interval) json.update({{"low", row.interval->low}, {"high", row.interval->high}});
  if (row.difference) json["difference"] = *row.difference;
  if (row.against_first) {
    const PairedBootstrap& test = *row.against_first;
    json.update({{"difference_low", test.interval.low},
                 {"difference_high", test.interval.high},
                 {"p", test.p},
                 {"p_koehn", test.p_koehn}});
  }
  if (!row.line.empty()) json["line"] = row.line;
  return json;
}

}  // namespace fovea
