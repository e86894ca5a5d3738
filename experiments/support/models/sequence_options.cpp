#include "experiments/support/models/sequence_options.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/table.h"
#include "experiments/support/text/words.h"
#include "nn/shapes_only.h"

namespace fovea {

namespace {

/// Throws Error if the longest text has more tokens than learned positions.
void require_room(const SequenceOptions& options, std::int64_t longest) {
  const std::int64_t decoded = options.decodes() ? decoded_length(longest) : 0;
  const std::int64_t padded = std::max(padded_length(longest, options.batches), decoded);
  require(options.model.positions_limit() == 0 || padded <= options.model.longest,
          "--max-positions {}: the longest text has {} tokens with its padding; raise it, or set --max-length or "
          "--max-words",
          options.model.longest, padded);
}

/// Throws Error for an unknown metric, and for one that does not compare decoded texts with this number of references.
void require_text_metric(const std::string& metric, std::size_t references = 1) {
  require(metric != "perplexity" && metric != "aer",
          "'{}' is not a metric of decoded texts; every test has the perplexity, and the alignment error rate where "
          "gold alignments are known",
          metric);
  const TextFile example{"example", {"a b c d"}};
  text_scores(metric, example, std::vector(references, example));
}

/// The largest number of references of a text.
std::size_t references_of(const PairSet& set) {
  std::size_t most = 1;
  for (const TextPair& pair : set.texts) most = std::max(most, 1 + pair.more_targets.size());
  return most;
}

}  // namespace

SequenceOptions::SequenceOptions() {
  training.updates = 3000;
  training.schedule = "cosine(rate=4e-3, warmup=300)";
  batches.tokens = 1024;
}

void SequenceOptions::add_to(Cli& cli) {
  data.add_to(cli, data_help);
  cli.comparable(true);
  cli.add(model, training, batches);
  cli.option("--label-smoothing", label_smoothing, "probability that is spread over the whole vocabulary")
      .range(0, 0.99);
  cli.choice("--loss-per", loss_per, {{"token", LossPer::token}, {"sentence", LossPer::sentence}},
             "token: the mean loss of a token; sentence: the mean over sentences of the sum of their tokens' losses")
      .rare();
  if (decodes()) {
    cli.group("Decoding");
    cli.add(beam);
    cli.rare("--select", select,
             "score of the development set that selects the model; loss, or a metric of greedily decoded texts, such "
             "as bleu, chrf or sentence-bleu");
    cli.comparable(false);  // a table's columns are the same in every row
    cli.option("--metrics", metrics, "scores of decoded texts, separated by commas; `score --list` describes them");
    cli.choice("--tokenize", tokenization, named_tokenizations(), "how sacrebleu splits texts into words").rare();
    cli.comparable(true);
  }
  cli.rare(
         "--init", initial,
         "begin with the parameters of this .safetensors file, of the best model of this run directory, or of a model "
         "as Hugging Face publishes it (--preset sets its sizes too)")
      .saved_as(lasting_path);
  cli.comparable(false);
  cli.group("Testing", false);
  cli.rare("--spread", spread,
           "measure the percentage of attention within these distances, in tokens and separated by commas, of the "
           "query's position, or, over the source, of the most attended token")
      .range(0, 1e6);
  cli.group("Instead of training", false);
  cli.rare("--parameters", parameters, "print the number of parameters of each part of the model, and exit");
  trained.add_to(cli, decodes());
}

std::vector<std::string> SequenceOptions::metric_names() const {
  std::vector<std::string> names = split_list(metrics);
  std::erase(names, "");
  return names;
}

void SequenceOptions::check() const {
  training.check();
  ShapesOnly instead_of_models;
  model.require_memory(0, trained.directory.empty() ? 4 : 1);
  model.make(decodes() ? special_tokens : 0, special_tokens);
  const auto& [fewest, most] = decodes() ? std::pair(beam.beam.min_length, beam.beam.max_length)
                                         : std::pair(trained.sampling.min_length, trained.sampling.max_length);
  require(fewest <= most, "--min-length {}: must be at most --longest {}", fewest, most);
  require(!decodes() || model.positions_limit() == 0 || most < model.longest,
          "--longest {}: with <s>, these are more tokens than --max-positions {}", most, model.longest);
  require(initial.empty() || !begins() || std::filesystem::exists(initial),
          "--init {}: there is no such file or directory", initial.string());
  for (const std::string& metric : metric_names()) with_flag("--metrics", [&] { require_text_metric(metric); });
  if (!selects_by_loss()) with_flag("--select", [&] { require_text_metric(select); });
}

void SequenceOptions::check(const PairData& data) const {
  model.require_memory(data.target_size(), 4);
  data.require_fitting(batches);
  require_room(*this, data.longest());
  for (const std::string& metric : metric_names())
    for (const PairSet& test : data.tests)
      with_flag("--metrics " + metric, [&] { require_text_metric(metric, references_of(test)); });
  if (!selects_by_loss())
    with_flag("--select " + select, [&] { require_text_metric(select, references_of(data.dev)); });
  if (initial.empty() || !begins()) {
    ShapesOnly instead_of_models;
    empty_model(data.tokenizers);
    return;
  }
  if (std::filesystem::is_directory(initial)) require_same_tokens(initial, data.tokenizers);
  const std::unique_ptr<SequenceModel> trial = empty_model(data.tokenizers);
  trial->initialise(training.seed);
  load_parameters(*trial, initial);
}

void SequenceOptions::print_warnings(const PairData& data) const {
  for (const PairSet& test : data.tests) gold_alignments(test.texts);  // throws for wrong links
  std::vector<std::string_view> targets;
  for (const TextPair& pair : data.dev.texts) targets.push_back(pair.target);
  std::string of_words;  // metrics that compare words between spaces
  std::vector<std::string> used = metric_names();
  used.push_back(select);
  for (const char* metric : {"bleu", "sentence-bleu", "ribes", "rouge"})
    if (std::ranges::count(used, metric) > 0) of_words += (of_words.empty() ? "" : ", ") + std::string(metric);
  if (of_words.empty() || !has_few_spaces(targets)) return;
  fmt::print(
      "warning: the targets have next to no spaces, and {} compare words between spaces: use --metrics chrf, "
      "or --metrics sacrebleu --tokenize zh or char, and --select likewise\n",
      of_words);
}

std::unique_ptr<SequenceModel> SequenceOptions::empty_model(const PairTokenizers& tokenizers) const {
  return model.make(decodes() ? tokenizers.source->size() : 0, tokenizers.target->size());
}

std::unique_ptr<SequenceModel> SequenceOptions::make_model(const PairData& data, const Run& run) const {
  std::unique_ptr<SequenceModel> model = empty_model(data.tokenizers);
  model->to(parse_device(training.device));
  model->initialise(run.seed);
  if (!initial.empty() && !std::filesystem::exists(run.directory->checkpoint())) load_parameters(*model, initial);
  return model;
}

std::unique_ptr<SequenceModel> SequenceOptions::load_model(const PairTokenizers& tokenizers) const {
  model.require_memory(tokenizers.target->size(), 1);
  std::unique_ptr<SequenceModel> trained_model = empty_model(tokenizers);
  trained_model->initialise(training.seed);
  load_parameters(*trained_model, trained.directory, trained.average);
  trained_model->to(parse_device(training.device));
  trained_model->train(false);
  return trained_model;
}

std::unique_ptr<SequenceModel> SequenceOptions::model_of_sizes() const {
  const std::int64_t source = data.text.vocabulary_size;
  const bool is_joint = data.text.joint || data.text.target_vocabulary_size == 0;
  const std::int64_t target = is_joint ? source : data.text.target_vocabulary_size;
  require(source > 0, "--parameters: needs --vocabulary-size, and --target-vocabulary-size if that differs");
  ShapesOnly instead_of_a_model;
  return model.make(decodes() ? source : 0, target);
}

void print_parameters(const NamedModels& models) {
  if (models.size() == 1) return fmt::print("{}", parameter_table(*models.front().second));
  const std::int64_t first = models.front().second->parameter_count();
  Table table({"model", "parameters", "more than the first"});
  for (const auto& [name, model] : models)
    table.row({name, model->parameter_count(), model->parameter_count() - first});
  fmt::print("{}", table.text());
}

}  // namespace fovea
