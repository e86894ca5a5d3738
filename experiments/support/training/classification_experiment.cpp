#include "experiments/support/training/classification_experiment.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>

#include <unistd.h>

#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/classification_report.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/same_data.h"
#include "nn/shapes_only.h"

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

/// Throws Error where a text does not fit into a batch, and says which.
void require_fitting(const char* part, const std::vector<Example>& examples, const std::vector<std::int64_t>& lengths,
                     const BatchOptions& batches) {
  for (std::size_t k = 0; k < examples.size(); ++k) {
    if (fits(lengths[k], batches)) continue;
    constexpr std::size_t shown = 40;
    fail("--batch-tokens {}: a {} text has {} tokens: raise --batch-tokens or set --max-length ('{}')", batches.tokens,
         part, lengths[k], printable(shortened(examples[k].text, shown)));
  }
}

/// What tells this run's data from others, so that it is not resumed with them.
constexpr const char* data_file = "data.json";

}  // namespace

void ClassificationExperiment::add_to(Cli& cli) {
  cli.group("Text");
  cli.add(text_);
  cli.comparable(true);
  cli.add(model_);
  cli.add(training);
  cli.add(batches);
  cli.comparable(false);
  cli.group("Comparison");
  cli.add(comparison_);
  cli.add(directory_);
  cli.group("Instead of training");
  cli.option("--list-attentions", list_attentions_, "print every attention method with its options, and end").unsaved();
  cli.option("--model", trained_, "a trained run's directory, for --label").unsaved().configures();
  cli.option("--label", label_, "label the lines of this file (- for standard input) with --model, and end").unsaved();
}

void ClassificationExperiment::check_flags(Cli& cli) const {
  require(
      training.seed <= std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(comparison_.seeds() - 1),
      "--seed {}: too large for --seeds {}", training.seed, comparison_.seeds());
  comparison_.check(cli, [&] {
    ShapesOnly instead_of_models;
    model_.require_memory();
    model_.make(model_.attention, special_tokens, 2);
  });
}

ClassificationExperiment::Prepared ClassificationExperiment::prepare(Cli& cli, const ClassificationData& data,
                                                                     const RunDirectory& directory) const {
  fmt::print("{}\n", describe(data));
  Prepared prepared;
  prepared.tokenizer = tokenizer_of(text_, data, directory);
  fmt::print("{}\n", prepared.tokenizer->description());
  std::fflush(stdout);
  prepared.encoded = encode(data, *prepared.tokenizer, text_.max_length);
  comparison_.check(cli, [&] {
    require_fitting("training", data.train, prepared.encoded.train.lengths, batches);
    require_fitting("development", data.dev, prepared.encoded.dev.lengths, batches);
    require_fitting("test", data.test, prepared.encoded.test.lengths, batches);
  });
  prepared.fingerprint = fingerprint(data, prepared.encoded);
  if (std::filesystem::exists(directory.file(data_file)))
    require_same_data(directory.file(data_file), prepared.fingerprint);
  else
    save_json(directory.file(data_file), prepared.fingerprint);
  return prepared;
}

void ClassificationExperiment::run(Cli& cli, const std::function<ClassificationData()>& load) {
  if (list_attentions_) return fmt::print("{}", attention_catalogue());
  require(label_.empty() == trained_.empty(), "--label and --model go together: --model runs/NAME --label FILE");
  training.apply();
  if (!label_.empty()) return label_texts();
  check_flags(cli);
  ClassificationData data = load();
  Json configuration = cli.configuration();
  RunDirectory directory = RunDirectory::open(program_, directory_, configuration);
  Prepared prepared;
  try {
    prepared = prepare(cli, data, directory);
  } catch (const Error&) {
    if (directory_.resume.empty()) directory.discard();  // what is refused before the first update leaves nothing
    throw;
  }
  const Tokenizer& tokenizer = *prepared.tokenizer;
  ClassificationSetting setting{data, prepared.encoded, tokenizer.size(), model_, batches, training};
  std::vector<ComparedClassifier> compared;
  auto fill_part = [&](const RunDirectory& part) {
    tokenizer.save(part.path());
    save_json(part.file(data_file), prepared.fingerprint);
  };
  comparison_.run(cli, training.seed, directory, fill_part, [&](const Comparison::Training& which) {
    if (compared.empty() || compared.back().title != which.row.title) compared.push_back({which.row.title, model_, {}});
    compared.back().runs.push_back({train_classifier(setting, which.seed, which.run), which.run.directory.path()});
  });

  fmt::print("\n{}{}\n", comparison_table(compared, data).text(), comparison_caption(compared, data));
  std::fflush(stdout);
  const FinishedRun& best = best_of(compared).best();
  if (best.directory != directory.path())
    std::filesystem::copy_file(best.directory / hypotheses_file, directory.file(hypotheses_file),
                               std::filesystem::copy_options::overwrite_existing);
  write_report(directory.report(), program_, setting, tokenizer, compared, configuration);
  fmt::print("\n");
  if (best.directory != directory.path()) fmt::print("best model: {}\n", best.directory.string());
  fmt::print("report: {}\nrun directory: {}\n", directory.report().string(), directory.path().string());
}

void ClassificationExperiment::label_texts() const {
  require_trained(trained_);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(trained_);
  TrainedClassifier trained = load_classifier(trained_, model_);
  LineReader reader(label_);
  bool is_typed = label_ == "-" && ::isatty(STDIN_FILENO);
  const std::size_t at_once = is_typed ? 1 : 1000;
  for (bool more = true; more;) {
    std::vector<Example> examples;
    std::exception_ptr trouble;  // the lines before it get their labels
    try {
      for (std::string line; examples.size() < at_once && (more = reader.next(line));) {
        Example example{.text = line};
        std::int64_t tokens = encode({&example, 1}, *tokenizer, text_.max_length).lengths[0];
        reader.require_here(fits(tokens, batches),
                            "{} tokens, --batch-tokens is {}: raise it, or set --max-length to cut what is longer",
                            tokens, batches.tokens);
        examples.push_back(std::move(example));
      }
    } catch (const Error&) {
      trouble = std::current_exception();
    }
    for (int label : predict(*trained.model, encode(examples, *tokenizer, text_.max_length), batches))
      fmt::print("{}\n", trained.classes[static_cast<std::size_t>(label)]);
    std::fflush(stdout);
    if (trouble) std::rethrow_exception(trouble);
  }
}

}  // namespace fovea
