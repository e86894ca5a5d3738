#include "experiments/support/analysis/run_flags.h"

#include <algorithm>

#include "experiments/support/analysis/finding_parts.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

RunFlags::RunFlags(Cli& cli, bool several) : several_(several) {
  several ? cli.option("RUNS", given_, "directories of trained runs")
          : cli.option("RUN", given_, "the directory of a trained run");
  if (several)
    cli.option("--names", names_,
               "names of the runs in tables and charts, separated by semicolons; default: their rows, or directories");
}

void RunFlags::add_set(Cli& cli) { cli.choice("--set", part, named_parts, "the part of the run's data that is read"); }

void RunFlags::add_sentences(Cli& cli) {
  add_set(cli);
  cli.option("--sentences", most_sentences, "number of sentences that are read, the first ones; 0: all").at_least(0);
}

void RunFlags::add_sentence(Cli& cli) {
  cli.option("--sentence", sentence,
             "number of the sentence in its set, from 0; crossing: the first whose gold links cross; median, longest: "
             "the first of that length");
}

void RunFlags::add_place(Cli& cli) {
  cli.option("--place", attention.place,
             "encoder or decoder: self-attention; cross: over the source; any: the first of cross, encoder and decoder "
             "whose attention is not plain")
      .one_of({"any", "encoder", "decoder", "cross"});
  cli.option("--layer", attention.layer, "the layer, counted from 1").at_least(1);
  cli.option("--sub-layer", attention.number,
             "which attention of a layer that has several at this place, counted from 1")
      .at_least(1);
}

void RunFlags::add_head(Cli& cli) { cli.option("--head", head, "the head, counted from 1; mean; or all"); }

Runs RunFlags::all() const {
  require(!given_.empty(), "{}",
          several_ ? "RUNS, the directories of one or more trained runs, are missing"
                   : "RUN, the directory of a trained run, is missing");
  return {given_.begin(), given_.end()};
}

std::vector<std::string> RunFlags::names() const {
  const Runs runs = all();
  if (!names_) return titles_of(runs);
  std::vector<std::string> names;
  for (std::string_view name : split_columns(*names_, ';')) names.push_back(trimmed(name));
  require(names.size() == runs.size(), "--names: {} for {}; names are separated by semicolons",
          counted(names.size(), "name"), counted(runs.size(), "run"));
  for (std::size_t k = 0; k < names.size(); ++k) {
    require(!names[k].empty(), "--names: name {} is empty", k + 1);
    require(std::count(names.begin(), names.end(), names[k]) == 1, "--names: '{}' is given twice", names[k]);
    names[k] = printable(names[k]);
  }
  return names;
}

std::filesystem::path RunFlags::one() const {
  const Runs runs = all();
  require(runs.size() == 1, "'{}': this command reads one run only", runs.back().string());
  return runs.front();
}

std::optional<std::int64_t> RunFlags::chosen_head() const {
  if (head == "all") return {};
  const std::optional<std::int64_t> one = number<std::int64_t>(head);
  require(head == "mean" || (one && *one >= 1), "--head '{}': expected a number from 1, mean or all", head);
  return head == "mean" ? 0 : *one;
}

}  // namespace fovea
