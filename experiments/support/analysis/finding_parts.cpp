#include "experiments/support/analysis/finding_parts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "experiments/support/analysis/analyzed_run.h"

namespace fovea {

std::vector<std::string> titles_of(const Runs& runs) {
  std::vector<std::string> titles;
  for (const std::filesystem::path& run : runs) titles.push_back(title_of_run(run));
  const std::vector<std::string> all = titles;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (std::count(all.begin(), all.end(), all[r]) > 1)
      titles[r] += fmt::format(" ({})", runs[r].lexically_normal().string());
  return titles;
}

Series curve_of(const std::string& name, const std::vector<double>& y, bool dashed, double first) {
  Series series{.name = name, .x = y, .y = y, .dashed = dashed};
  std::iota(series.x.begin(), series.x.end(), first);
  return series;
}

Table table_of_tokens(const char* what, const std::vector<std::string>& tokens, const Columns& columns, int decimals) {
  std::vector<std::string> headings{what, "token"};
  for (const auto& [name, values] : columns) headings.push_back(name);
  Table table(headings);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<Cell> row{i, tokens[i]};
    for (const auto& [name, values] : columns) row.push_back(Cell::number(values[i], decimals));
    table.row(row);
  }
  return table;
}

std::string spaced(std::string name) { return std::replace(name.begin(), name.end(), '_', ' '), name; }

std::string place_text(const AttentionView& view) {
  return fmt::format("{}, layer {}", name_of(view.place), view.layer);
}

Samples samples_of(const RunFlags& flags, std::int64_t first_head, std::int64_t last_head, const std::string& what,
                   const HeadQuantities& quantities) {
  const Runs runs = flags.all();
  const std::vector<std::string> titles = flags.names();
  Samples samples;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto run = AnalyzedRun::open(runs[r], flags.part);
    samples.sentences =
        flags.most_sentences > 0 ? std::min(run->size(), std::size_t(flags.most_sentences)) : run->size();
    std::map<std::tuple<Place, int, int, std::int64_t>, HeadSample> found;
    for (std::size_t k = 0; k < samples.sentences; ++k)
      for (const AttentionView& view : run->sentence(k).attentions)
        for (std::int64_t head = first_head; head <= std::min(last_head, view.quantities.front().heads); ++head) {
          const Columns columns = quantities(view, head);
          if (columns.empty()) continue;
          HeadSample& sample = found[{view.place, view.layer, view.number, head}];
          if (sample.values.empty())
            sample = {titles[r], {view.place, view.layer, view.number, view.method}, head, columns};
          else
            for (std::size_t q = 0; q < columns.size(); ++q)
              sample.values[q].second.insert(sample.values[q].second.end(), columns[q].second.begin(),
                                             columns[q].second.end());
        }
    require(!found.empty(), "{}: none of its attentions has {}", runs[r].string(), what);
    for (auto& [key, sample] : found) samples.heads.push_back(std::move(sample));
  }
  return samples;
}

Table table_of(const Samples& samples, int decimals) {
  std::vector<std::string> headings{"run", "place", "layer", "attention", "head"}, names;
  for (const HeadSample& sample : samples.heads)
    for (const auto& [name, values] : sample.values)
      if (std::count(names.begin(), names.end(), name) == 0) names.push_back(name);
  headings.insert(headings.end(), names.begin(), names.end());
  headings.emplace_back("values");
  Table table(headings);
  for (const HeadSample& sample : samples.heads) {
    const AttentionView& at = sample.attention;
    std::vector<Cell> row{sample.run, name_of(at.place), at.layer, at.method,
                          sample.head > 0 ? Cell(sample.head) : Cell("all")};
    for (const std::string& name : names) {
      const auto own = std::find_if(sample.values.begin(), sample.values.end(),
                                    [&](const auto& each) { return each.first == name; });
      row.push_back(own == sample.values.end() ? Cell() : Cell::mean_of(own->second, decimals));
    }
    row.emplace_back(sample.values.front().second.size());
    table.row(row);
  }
  return table;
}

}  // namespace fovea
