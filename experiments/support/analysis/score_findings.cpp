// Scores of runs: by length of the input, by n-grams, and over the values of an option.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/data/file_sets.h"
#include "experiments/support/models/sequence_testing.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/words.h"
#include "tensor/support/suggestion.h"

namespace fovea {

using Path = std::filesystem::path;

// ---- Charts of finished runs

namespace {

RunResult finished_run(const Path& run) {
  require(std::filesystem::is_directory(run), "{}: there is no such directory", run.string());
  std::optional<RunResult> result = load_result(run);
  require(result.has_value(), "{}: the run is not finished: it has no result.json", run.string());
  require(result->failure.empty(), "{}: the run has no test scores: {}", run.string(), result->failure);
  require(!result->tests.empty(), "{}: the run has no test scores", run.string());
  return std::move(*result);
}

/// The runs. Throws Error unless all are finished, of one program, and were tested on the same examples by the same
/// first metric.
std::vector<RunResult> runs_of_one_task(const Runs& runs) {
  std::vector<RunResult> all;
  for (const Path& run : runs) {
    const RunResult &own = all.emplace_back(finished_run(run)), &first = all.front();
    require(program_of(own) == program_of(first), "{} is a run of {}, {} of {}; their scores cannot be compared",
            runs.front().string(), program_of(first), run.string(), program_of(own));
    const std::string &metric = own.tests.front().metrics.front(), &wanted = first.tests.front().metrics.front();
    require(metric == wanted, "the first metric of {} is {}, of {} {}; give runs with the same one",
            runs.front().string(), wanted, run.string(), metric);
    require(own.tests.front().key() == first.tests.front().key(),
            "{} and {} were tested on different examples; their scores cannot be compared", runs.front().string(),
            run.string());
  }
  return all;
}

}  // namespace

Finding scores_by_length(Cli& cli) {
  RunFlags flags(cli, RunFlags::several);
  std::vector<int> ends{5, 10, 15, 20, 30};
  cli.option("--buckets", ends, "the longest length of each bucket, in words; one more takes longer inputs")
      .at_least(1);
  cli.parse();
  const Runs runs = flags.runs();
  require(std::ranges::is_sorted(ends, std::less_equal()), "--buckets: the lengths must grow");
  const std::vector<RunResult> results = runs_of_one_task(runs);
  const std::vector<std::string> titles = flags.names();
  Table table({"run", "words", "examples", "score", "value"});
  LineChart chart{.title = "Score by length", .x = {"words of the input, at most"}};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TestResult& test = results[r].tests.front();
    std::map<std::size_t, std::vector<TestedExample>> buckets;
    std::size_t longest = 0;
    for (const TestedExample& example : test.examples) {
      const std::size_t words = split_words(example.input.empty() ? example.reference : example.input).size();
      longest = std::max(longest, words);
      const auto end = std::ranges::find_if(ends, [&](int e) { return words <= std::size_t(e); });
      buckets[std::size_t(end - ends.begin())].push_back(example);
    }
    Series series{.name = titles[r]};
    for (const auto& [k, examples] : buckets) {
      const TextScore score = scores_of(examples, {test.metrics.front()}, test.options).front();
      const std::size_t first = k == 0 ? 0 : std::size_t(ends[k - 1]) + 1,
                        last = k < ends.size() ? std::size_t(ends[k]) : longest;
      table.row({titles[r], fmt::format("{}–{}", first, last), examples.size(), score.name,
                 Cell::number(score.metric.value(), score.decimals)});
      series.x.push_back(double(last)), series.y.push_back(score.metric.value());
      chart.y = {score.name};
    }
    chart.series.push_back(series);
  }
  return {.title = "Scores by length of the input", .tables = {{"", table}}, .figures = {chart}, .runs = runs};
}

Finding ngram_gaps(Cli& cli) {
  RunFlags flags(cli, RunFlags::several);
  int longest = 8;
  cli.option("--longest", longest, "the longest n-grams").range(1, 9);
  cli.parse();
  const Runs runs = flags.runs();
  require(runs.size() >= 2, "at least two runs are needed; the first is the one that the others are compared with");
  const std::vector<RunResult> results = runs_of_one_task(runs);
  const std::string program = program_of(results.front());
  require(program == "translate" || program == "summarize",
          "{} is a run of {}, which writes no texts; expected runs of translate or summarize", runs.front().string(),
          program);
  const std::vector<std::string> titles = flags.names();
  Table table({"run", "score", "n", "value", "gap"});
  LineChart charts[2] = {{.title = "Gap of n-gram scores", .x = {"n"}, .y = {"n-grams alone"}, .series = {}},
                         {.title = "Gap of BLEU-n", .x = {"n"}, .y = {"n-grams of 1 to n words"}, .series = {}}};
  std::vector<TextScore> first;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TestResult& test = results[r].tests.front();
    const std::vector<TextScore> scores = scores_of(test.examples, {"ngrams"}, test.options);
    if (r == 0) first = scores;
    const std::size_t orders = scores.size() / 2;  // n-grams alone, then those of 1 to n
    for (std::size_t kind : {0, 1}) {
      std::vector<double> gaps;
      for (std::size_t k = kind * orders; k < kind * orders + std::min(orders, std::size_t(longest)); ++k) {
        const double value = scores[k].metric.value();
        gaps.push_back(value - first[k].metric.value());
        table.row({titles[r], kind == 0 ? "individual" : "cumulative", gaps.size(), Cell::number(value, 2),
                   Cell::number(gaps.back(), 2)});
      }
      charts[kind].series.push_back(curve_of(titles[r], gaps, r == 0, 1));
    }
  }
  return {.title = "n-gram scores compared with " + titles[0],
          .notes = {"Scores of mteval-v13a on lower-cased text; a gap is the difference to the first run."},
          .tables = {{"", table}},
          .figures = {charts[0], charts[1]},
          .runs = runs};
}

// ---- Options that vary at test time

namespace {

std::vector<OptionDescription> options_of(const MethodText& method) {
  const MethodEntry* entry = find_method(method.name);
  return entry ? describe_options(*entry) : std::vector<OptionDescription>();
}

}  // namespace

std::string with_option(const std::string& specification, const std::string& name, const std::string& value) {
  struct Edit {
    std::size_t at, erased;
    std::string text;
  };
  std::vector<Edit> edits;
  const std::string set = name + "=" + value;
  const auto is_named = [&](const auto& option) { return option.name == name; };
  const std::vector<MethodText> sum = parse_specification(specification);
  for (const MethodText* method : all_methods(sum)) {
    if (!find_method(method->name)) continue;
    const auto own = std::ranges::find_if(method->options, is_named);
    const std::size_t end = method->column - 1 + method->name.size();
    const std::size_t next = std::min(specification.find_first_not_of(" \t", end), specification.size());
    if (own != method->options.end())
      edits.push_back({own->value_column - 1, own->value.size(), value});
    else if (std::ranges::none_of(options_of(*method), is_named))
      continue;
    else if (specification.substr(next, 1) == "(")
      edits.push_back({next + 1, 0, set + (method->options.empty() ? "" : ", ")});
    else
      edits.push_back({end, 0, "(" + set + ")"});
  }
  std::ranges::sort(edits, [](const Edit& a, const Edit& b) { return a.at > b.at; });
  std::string text = edits.empty() ? "" : specification;
  for (const Edit& edit : edits) text.replace(edit.at, edit.erased, edit.text);
  return text;
}

namespace {

/// The flags that give the option this value in all attentions that have it; if none has, the flag of beam search of
/// this name. Throws Error for another name: other flags would change nothing here, or the data and the files.
std::vector<std::string> flags_of(const SequenceModelOptions& model, const std::string& name,
                                  const std::string& value) {
  const std::vector<std::string> of_search{"beam",    "length-penalty", "min-length",
                                           "longest", "longest-ratio",  "no-repeat"};
  std::set<std::string> known(of_search.begin(), of_search.end());
  std::vector<std::string> flags;
  for (const auto& [flag, text] : {std::pair("--attention", model.attention),
                                   {"--decoder-attention", model.decoder_attention},
                                   {"--cross-attention", model.cross_attention}}) {
    if (text.empty()) continue;
    if (const std::string changed = with_option(text, name, value); !changed.empty())
      flags.insert(flags.end(), {flag, changed});
    const std::vector<MethodText> sum = parse_specification(text);
    for (const MethodText* method : all_methods(sum))
      for (const OptionDescription& option : options_of(*method)) known.insert(option.name);
  }
  if (!flags.empty()) return flags;
  const std::vector<std::string> names(known.begin(), known.end());
  require(std::ranges::count(of_search, name) > 0,
          "--vary: '{}' cannot vary; expected an option of the model's attention methods or of beam search: {}{}", name,
          listed(names, ", "), did_you_mean(name, names));
  return {"--" + name, value};
}

Part part_named(std::string_view name) {
  for (const Part part : all_parts)
    if (name_of(part) == name) return part;
  fail("--on: no part '{}'; expected train, dev or test, separated by commas", name);
}

/// The options of a run for each value of one option.
using VariedOptions = std::vector<std::pair<std::string, SequenceOptions>>;
VariedOptions varied_options(const Path& run, const SequenceModelOptions& model, const std::string& name,
                             std::string_view values, const std::string& metrics) {
  VariedOptions all;
  for (std::string_view value : split_columns(values, ',')) {
    std::vector<std::string> flags = flags_of(model, name, std::string(value));
    if (!metrics.empty()) flags.insert(flags.end(), {"--metrics", metrics});
    with_flag("--vary", [&] {
      SequenceOptions& options = all.emplace_back(value, sequence_options(run, flags)).second;
      options.trained.directory = run;
      options.check();
    });
  }
  return all;
}

}  // namespace

Finding trade_off(Cli& cli) {
  RunFlags flags(cli, RunFlags::data);
  std::string vary, on = "test", metrics;
  cli.option("--vary", vary,
             "NAME=VALUE,VALUE,...: an option of the attention's methods, as in threshold=0.3,1,inf, or a flag of beam "
             "search without its dashes: beam, length-penalty, ...")
      .required();
  cli.option("--on", on, "the parts of the data, separated by commas");
  cli.option("--metrics", metrics, "scores of decoded texts, separated by commas; empty: those of the training");
  cli.parse();
  const Path run = flags.run();
  std::vector<Part> parts;
  for (const std::string_view set : split_columns(on, ',')) parts.push_back(part_named(set));
  const std::size_t equals = vary.find('=');
  require(equals != std::string::npos && equals > 0, "--vary '{}': expected NAME=VALUE,VALUE,...", vary);
  const std::string name = vary.substr(0, equals), values = vary.substr(equals + 1);
  const SequenceOptions recorded = sequence_options(run, flags.data_flags(run));
  require(recorded.decodes(), "{}: --vary needs a run that decodes, of translate or summarize", run.string());
  const VariedOptions varied = varied_options(run, recorded.model, name, values, metrics);
  const PairTokenizers tokenizers = load_tokenizers(run);
  std::optional<Table> table;
  LineChart chart{.title = fmt::format("Trade-off over {}", name), .x = {"source tokens that a step scores"}};
  for (const Part part : parts) {
    const PairData data(recorded.data, tokenizers, part, false);
    Series series{.name = name_of(part)};
    for (const auto& [value, options] : varied) {
      const TestResult test =
          test_model(*options.load_model(tokenizers), data.tests.front(), tokenizers, options, "stopped");
      const double window = measured({.tests = {test}}, "window");
      std::vector<std::string> headings{"set", name, "window"};
      std::vector<Cell> row{name_of(part), value, Cell::number(window, 2)};
      for (const TextScore& score : test.scores()) {
        headings.push_back(score.name);
        row.push_back(Cell::number(score.metric.value(), score.decimals));
      }
      if (!table) table.emplace(headings);
      table->row(row);
      series.x.push_back(window), series.y.push_back(test.scores().front().metric.value());
      chart.y = {test.scores().front().name};
    }
    chart.series.push_back(series);
  }
  return {.title = chart.title,
          .notes = {title_of_run(run), "window: the source tokens, </s> included, that a step of beam search scores."},
          .tables = {{"", *table}},
          .figures = {chart},
          .runs = {run}};
}

}  // namespace fovea
