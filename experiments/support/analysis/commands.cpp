#include "experiments/support/analysis/commands.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

RunFlags::RunFlags(Cli& cli, unsigned groups)
    : cli_(cli), several_(groups & several), reads_data_(groups & (set | data)) {
  several_ ? cli.option("RUNS", given_, "directories of trained runs")
           : cli.option("RUN", given_, "the directory of a trained run");
  if (several_)
    cli.option("--names", names_,
               "names of the runs in tables and charts, separated by semicolons; default: their rows, or directories");
  if (groups & set)
    cli.choice("--set", part, {{"train", Part::train}, {"dev", Part::dev}, {"test", Part::test}},
               "the part of the run's data that is read");
  if (reads_data_)
    cli.option("--data", data_, "read these data instead of the run's, as the run's program reads --data");
  if (groups & sentences)
    cli.option("--sentences", most_sentences, "number of sentences that are read, the first ones; 0: all").at_least(0);
  if (groups & sentence)
    cli.option("--sentence", first_sentence, "number of the sentence in its set, from 0").at_least(0);
  if (groups & text) {
    cli.option("--text", text_, "a sentence of your own, in words as the training data have them");
    cli.option("--target", target_, "with --text: its translation or summary; without it, the model's own");
  }
  if (groups & attention) {
    cli.option("--place", choice.place,
               "encoder or decoder: self-attention; cross: over the source; any: the first of cross, encoder and "
               "decoder whose attention is not plain")
        .one_of({"any", "encoder", "decoder", "cross"});
    cli.option("--layer", choice.layer, "the layer, counted from 1").at_least(1);
    cli.option("--sub-layer", choice.number,
               "which attention of a layer that has several at this place, counted from 1")
        .at_least(1);
  }
  if (groups & head) cli.option("--head", head_name, "the head, counted from 1; mean; or all");
}

std::vector<std::string> RunFlags::data_flags(const std::filesystem::path& run) const {
  require(!reads_data_ || text_ || !data_.empty() || !is_hugging_face(run),
          "{}: a model of Hugging Face has no data of its own; name some with --data", run.string());
  return data_.empty() ? std::vector<std::string>() : std::vector{"--data=" + data_};
}

Runs RunFlags::runs() const {
  require(!given_.empty(), "{}",
          several_ ? "RUNS, the directories of one or more trained runs, are missing"
                   : "RUN, the directory of a trained run, is missing");
  return {given_.begin(), given_.end()};
}

std::vector<std::string> RunFlags::names() const {
  const Runs all = runs();
  std::vector<std::string> names;
  if (!names_) {
    for (const std::filesystem::path& each : all) names.push_back(title_of_run(each));
    const std::vector<std::string> titles = names;
    for (std::size_t r = 0; r < all.size(); ++r)
      if (std::ranges::count(titles, titles[r]) > 1)
        names[r] += fmt::format(" ({})", all[r].lexically_normal().string());
    return names;
  }
  for (std::string_view name : split_columns(*names_, ';')) names.push_back(printable(trimmed(name)));
  require(names.size() == all.size(), "--names: {} for {}; names are separated by semicolons",
          counted(names.size(), "name"), counted(all.size(), "run"));
  for (const std::string& name : names)
    require(!name.empty() && std::ranges::count(names, name) == 1, "--names: '{}' is {}", name,
            name.empty() ? "empty" : "given twice");
  return names;
}

std::filesystem::path RunFlags::run() const {
  const Runs all = runs();
  require(all.size() == 1, "'{}': this command reads one run only", all.back().string());
  return all.front();
}

std::vector<SentenceView> RunFlags::views(std::size_t count) const {
  require(text_ || !target_, "--target: only with --text");
  for (const char* flag : {"--sentence", "--set"})
    require(!text_ || !cli_.given(flag), "{} and --text exclude each other: both choose the sentence", flag);
  const auto opened = open(run());
  if (text_) return {opened->text(*text_, target_)};
  std::vector<SentenceView> views;
  for (auto k = std::size_t(first_sentence); views.size() < count && (views.empty() || k < opened->size()); ++k)
    views.push_back(opened->sentence(k));
  return views;
}

std::size_t RunFlags::sentences_of(AnalyzedRun& run) const {
  return most_sentences > 0 ? std::min(run.size(), std::size_t(most_sentences)) : run.size();
}

std::optional<std::int64_t> RunFlags::chosen_head() const {
  if (head_name == "all") return {};
  const std::optional<std::int64_t> one = number<std::int64_t>(head_name);
  require(head_name == "mean" || (one && *one >= 1), "--head '{}': expected a number from 1, mean or all", head_name);
  return head_name == "mean" ? 0 : *one;
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

Samples samples_of(const RunFlags& flags, std::int64_t first_head, std::int64_t last_head, const std::string& what,
                   const HeadQuantities& quantities, bool are_initial) {
  const Runs runs = flags.runs();
  const std::vector<std::string> names = flags.names();
  Samples samples;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto run = flags.open(runs[r]);
    if (are_initial) run->restart();
    samples.sentences = flags.sentences_of(*run);
    std::map<std::tuple<Place, int, int, std::int64_t>, HeadSample> found;
    for (std::size_t k = 0; k < samples.sentences; ++k)
      for (const AttentionView& view : run->sentence(k).attentions)
        for (std::int64_t head = first_head; head <= std::min(last_head, view.quantities.front().heads); ++head) {
          const Columns columns = quantities(view, head);
          if (columns.empty()) continue;
          HeadSample& sample = found[{view.place, view.layer, view.number, head}];
          if (sample.values.empty())
            sample = {names[r], {view.place, view.layer, view.number, view.method}, head, Columns(columns.size())};
          for (std::size_t q = 0; q < columns.size(); ++q) {
            auto& [name, all] = sample.values[q];
            name = columns[q].first;
            all.insert(all.end(), columns[q].second.begin(), columns[q].second.end());
          }
        }
    require(!found.empty(), "{}: none of its attentions has {}", runs[r].string(), what);
    for (auto& [key, sample] : found) samples.heads.push_back(std::move(sample));
  }
  return samples;
}

Table table_of(const Samples& samples, int decimals) {
  std::vector<std::string> names;
  for (const HeadSample& sample : samples.heads)
    for (const auto& [name, values] : sample.values)
      if (std::ranges::count(names, name) == 0) names.push_back(name);
  std::vector<Column<HeadSample>> columns{
      {"run", [](auto& sample) { return sample.run; }},
      {"place", [](auto& sample) { return name_of(sample.attention.place); }},
      {"layer", [](auto& sample) { return sample.attention.layer; }},
      {"attention", [](auto& sample) { return sample.attention.method; }},
      {"head", [](auto& sample) { return sample.head > 0 ? Cell(sample.head) : Cell("all"); }}};
  for (const std::string& name : names)
    columns.push_back({name, [name, decimals](const HeadSample& sample) {
                         for (const auto& [own, values] : sample.values)
                           if (own == name) return Cell::mean_of(values, decimals);
                         return Cell();
                       }});
  columns.push_back({"values", [](auto& sample) { return sample.values.front().second.size(); }});
  return table_of(columns, samples.heads);
}

}  // namespace fovea
