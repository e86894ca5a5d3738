#include "experiments/support/classification_experiment.h"

#include <cstdio>
#include <optional>

#include "experiments/support/classification_report.h"
#include "experiments/support/lines.h"
#include "experiments/support/program.h"

namespace fovea {

namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const TextOptions& options, const ClassificationData& data,
                                        const RunDirectory& directory) {
  if (std::filesystem::exists(directory.file("tokenizer.json"))) return load_tokenizer(directory.path());
  std::vector<std::string_view> texts;
  for (const Example& example : data.train) texts.push_back(example.text);
  std::unique_ptr<Tokenizer> tokenizer = train_tokenizer(options, texts);
  tokenizer->save(directory.path());
  return tokenizer;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = std::min(text.find(';', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    std::size_t first = part.find_first_not_of(" \t"), last = part.find_last_not_of(" \t");
    if (first != std::string::npos) parts.push_back(part.substr(first, last - first + 1));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void ClassificationExperiment::add_to(Cli& cli) {
  cli.group("Text");
  cli.add(text_);
  cli.add(model_);
  cli.add(training);
  cli.add(batches);
  cli.group("Comparison");
  cli.option("--compare", compare_,
             "attentions to train instead of --attention, separated by ';': \"global; gaussian\"");
  cli.option("--seeds", seeds_, "runs of each attention, with seeds --seed, --seed + 1, ...").range(1, 1000);
  cli.add(directory_);
  cli.group("Instead of training");
  cli.option("--list-attentions", list_attentions_, "print every attention method with its options, and end").unsaved();
  cli.option("--model", trained_, "a trained run's directory, for --label").unsaved().configures();
  cli.option("--label", label_, "label the lines of this file (- for standard input) with --model, and end").unsaved();
}

bool ClassificationExperiment::answered() const {
  if (list_attentions_) {
    fmt::print("{}", attention_catalogue());
    return true;
  }
  require(label_.empty() == trained_.empty(), "--label and --model go together: --model runs/NAME --label FILE");
  if (label_.empty()) return false;
  label_texts();
  return true;
}

std::vector<std::string> ClassificationExperiment::attentions() const {
  if (compare_.empty()) return {model_.attention};
  std::vector<std::string> list = split_list(compare_);
  require(!list.empty(), "--compare: no attention in '{}'; write \"global; gaussian(window=query)\"", compare_);
  return list;
}

ComparedAttention ClassificationExperiment::train_seeds(const std::string& attention, const RunDirectory& directory,
                                                        const Json& configuration, const ClassificationSetting& setting,
                                                        const Tokenizer& tokenizer) const {
  ComparedAttention compared{attention, {}};
  bool is_alone = attentions().size() == 1 && seeds_ == 1;
  for (int k = 0; k < seeds_; ++k) {
    std::uint64_t seed = training.seed + static_cast<std::uint64_t>(k);
    std::string title = fmt::format("{} seed {}", attention, seed);
    std::optional<RunDirectory> part;
    Json own = configuration;
    if (!is_alone) {
      // Each run of a comparison is a run directory in its own right.
      part = directory.part(title);
      own["attention"] = attention;
      own["seed"] = seed;
      own["compare"] = "";
      own["seeds"] = 1;
      save_json(part->configuration(), own);
      tokenizer.save(part->path());
    }
    const RunDirectory& place = part ? *part : directory;
    Outcome outcome = train_classifier(setting, attention, seed, {place, own, title, directory.path()});
    compared.runs.push_back({outcome, place.path()});
  }
  return compared;
}

void ClassificationExperiment::run(const Cli& cli, const ClassificationData& data) const {
  check(data);
  training.apply();
  for (const std::string& attention : attentions()) model_.make(attention, special_tokens, 2);  // wrong ones fail first
  Json configuration = cli.configuration();
  RunDirectory directory = RunDirectory::open(program_, directory_, configuration);
  fmt::print("{}\n", describe(data));
  std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(text_, data, directory);
  fmt::print("{}\n", tokenizer->description());
  std::fflush(stdout);
  EncodedData encoded = encode(data, *tokenizer, text_.max_length);
  ClassificationSetting setting{data, encoded, tokenizer->size(), model_, batches, training};
  std::vector<ComparedAttention> compared;
  for (const std::string& attention : attentions())
    compared.push_back(train_seeds(attention, directory, configuration, setting, *tokenizer));

  fmt::print("\n{}{}\n", comparison_table(compared, data).text(), comparison_caption(compared, data));
  std::fflush(stdout);
  const FinishedRun& best = best_of(compared);
  if (best.directory != directory.path())
    std::filesystem::copy_file(best.directory / hypotheses_file, directory.file(hypotheses_file),
                               std::filesystem::copy_options::overwrite_existing);
  write_report(directory.report(), program_, setting, *tokenizer, compared, configuration);
  fmt::print("\nbest model: {}\nreport: {}\nrun directory: {}\n", best.directory.string(), directory.report().string(),
             directory.path().string());
}

void ClassificationExperiment::label_texts() const {
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(trained_);
  TrainedClassifier trained = load_classifier(trained_, model_, model_.attention);
  std::vector<Example> examples;
  LineReader reader(label_);
  for (std::string line; reader.next(line);) examples.push_back({.text = line});
  if (examples.empty()) return;
  EncodedExamples encoded = encode(examples, *tokenizer, text_.max_length);
  for (int label : predict(*trained.model, encoded, batches))
    fmt::print("{}\n", trained.classes[static_cast<std::size_t>(label)]);
}

}  // namespace fovea
