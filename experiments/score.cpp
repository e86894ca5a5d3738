// Computes metrics of text files: reads hypotheses and references, prints a table.
#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include "experiments/support/metrics/lead.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/text/words.h"

namespace {

using namespace fovea;

struct ScoreOptions {
  std::string hypotheses, metrics = "bleu,sacrebleu,ribes";
  std::vector<std::string> references, compared;
  TextMetricOptions text;
  bool split_compounds = false, json = false, list = false;
  int lead = 0;
  BootstrapOptions bootstrap;

  void add_to(Cli& cli) {
    std::vector<std::string> names;
    for (const TextMetric& metric : text_metrics()) names.push_back(metric.name);
    cli.option("HYPOTHESES", hypotheses, "file with one text per line, also .gz; - is standard input");
    cli.option("--reference", references,
               "file with the reference of each line; give the flag several times for several references");
    cli.option("--compare", compared,
               "hypotheses of another system, which is tested against HYPOTHESES; may be given several times");
    cli.option("--metrics", metrics,
               "metrics, separated by commas: " + alternatives(names) + "; --list describes them");
    cli.option("--list", list, "print what the metrics are, and exit");
    cli.choice<std::optional<bool>>(
        "--letters", text.lower_case, {{"usual", std::nullopt}, {"lower", true}, {"mixed", false}},
        "usual: each metric as its original program (RIBES, ROUGE and mteval in lower case); lower, mixed: all "
        "metrics but ROUGE in lower case, or as the text is");
    cli.choice("--tokenize", text.tokenization, named_tokenizations(),
               "tokenization of --metrics sacrebleu: char for single characters, intl for punctuation of all scripts, "
               "zh for Chinese");
    cli.option("--split-compounds", split_compounds,
               "replace a-b by a ##AT##-##AT## b in all files, as papers on WMT's English-German do");
    cli.option("--lead", lead,
               "score only the first sentences of each hypothesis, which is an article; 0: the whole text")
        .at_least(0);
    cli.option("--links-from", text.links_from, "--metrics aer: the number of a sentence's first word in HYPOTHESES")
        .range(0, 1);
    cli.option("--gold-from", text.gold_from, "--metrics aer: the number of a sentence's first word in --reference")
        .range(0, 1);
    cli.option("--stem", text.rouge.stem, "ROUGE compares Porter stems, as with -m of ROUGE-1.5.5");
    cli.option("--resamples", bootstrap.resamples, "resamples of the bootstrap; 0: no bootstrap").at_least(0);
    cli.option("--seed", bootstrap.seed, "seed of the bootstrap");
    cli.option("--json", json, "print one JSON object per row instead of the table");
  }
};

void print_list() {
  Table table({"metric", ""});
  for (const TextMetric& metric : text_metrics()) table.row({metric.name, metric.description});
  fmt::print("{}", table.text());
}

TextFile read(const ScoreOptions& options, const std::string& path, bool is_reference) {
  TextFile file = read_lines(path);
  for (std::string& line : file.lines) {
    if (options.split_compounds) line = split_compounds(line);
    if (options.lead > 0 && !is_reference) line = lead(line, options.lead);
  }
  return file;
}

void require_inputs(const ScoreOptions& options) {
  require(!options.hypotheses.empty(), "HYPOTHESES, the file of texts to score, is missing");
  require(!options.references.empty(), "--reference, the file of reference texts, is missing");
  auto from_input = int(options.hypotheses == "-");
  for (const auto& paths : {options.references, options.compared}) from_input += int(std::ranges::count(paths, "-"));
  require(from_input <= 1, "standard input ('-') is given {} times; only one file can be read from it", from_input);
}

std::vector<TextScore> scores_of(const TextFile& system, std::span<const TextFile> references,
                                 const ScoreOptions& options) {
  std::vector<TextScore> scores;
  for (const std::string& metric : split_list(options.metrics))
    std::ranges::move(text_scores(metric, system, references, options.text), std::back_inserter(scores));
  return scores;
}

/// Warns of flags that only metrics read which are not chosen.
void check_effects(const ScoreOptions& options) {
  const TextMetricOptions usual;
  const std::vector<std::string> metrics = split_list(options.metrics);
  const auto check = [&](const char* flag, bool is_given, const char* metric) {
    if (is_given && std::ranges::count(metrics, metric) == 0)
      warn_without_effect({flag}, fmt::format("only --metrics {} reads it", metric));
  };
  check("--tokenize", options.text.tokenization != usual.tokenization, "sacrebleu");
  check("--stem", options.text.rouge.stem != usual.rouge.stem, "rouge");
  check("--links-from", options.text.links_from != usual.links_from, "aer");
  const bool reads_letters = std::ranges::any_of(
      metrics, [](std::string_view metric) { return metric != "rouge" && metric != "perplexity" && metric != "aer"; });
  if (options.text.lower_case && !reads_letters) warn_without_effect({"--letters"}, "no metric of --metrics reads it");
  check("--gold-from", options.text.gold_from != usual.gold_from, "aer");
}

void score(const ScoreOptions& options) {
  require_inputs(options);
  std::vector<TextFile> references, systems{read(options, options.hypotheses, false)};
  for (const std::string& path : options.references) references.push_back(read(options, path, true));
  for (const std::string& path : options.compared) systems.push_back(read(options, path, false));
  std::vector<std::string> names;
  std::vector<std::vector<TextScore>> scores;
  for (const TextFile& system : systems) {
    names.push_back(system.name);
    scores.push_back(scores_of(system, references, options));
  }
  check_effects(options);  // of metrics that exist
  std::vector<Json> rows = score_rows(names, scores, options.bootstrap);
  if (!options.json) return fmt::print("{}", score_table(rows));
  for (Json& row : rows) {
    row.erase("decimals");
    fmt::print("{}\n", text_of(row));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run("score", argc, argv, [](Cli& cli) {
    ScoreOptions options;
    cli.describe("Scores texts against references, with bootstrap intervals, and tests systems against one another.");
    cli.add(options);
    cli.parse();
    options.list ? print_list() : score(options);
  });
}
