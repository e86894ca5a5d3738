#include "experiments/support/classification_experiment.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>

#include "experiments/support/csv.h"
#include "experiments/support/html.h"
#include "experiments/support/lines.h"
#include "experiments/support/program.h"
#include "experiments/support/statistics.h"
#include "experiments/support/table.h"
#include "nn/checkpoint.h"
#include "nn/loss.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"

namespace fovea {

/// The three parts as token numbers.
struct EncodedData {
  EncodedExamples train, dev, test;
  std::vector<std::string> classes;
  std::string group;
};

/// What a finished run leaves behind, in result.json.
struct ClassificationExperiment::Outcome {
  std::string attention;
  std::uint64_t seed = 0;
  std::int64_t parameters = 0, updates = 0;
  double steps_per_second = 0, dev_accuracy = 0;
  std::string correct;  ///< '1' or '0' for each test example

  double accuracy() const {
    return 100.0 * static_cast<double>(std::count(correct.begin(), correct.end(), '1')) / correct.size();
  }
  Json json() const {
    return {{"attention", attention},
            {"seed", seed},
            {"parameters", parameters},
            {"updates", updates},
            {"steps_per_second", steps_per_second},
            {"dev_accuracy", dev_accuracy},
            {"test_accuracy", accuracy()},
            {"correct", correct}};
  }
  static Outcome from(const Json& json) {
    return {json.at("attention"),        json.at("seed"),         json.at("parameters"), json.at("updates"),
            json.at("steps_per_second"), json.at("dev_accuracy"), json.at("correct")};
  }
};

namespace {

struct BatchTensors {
  Tensor tokens, lengths, labels;
};

BatchTensors tensors_of(const Batch& batch) {
  return {Tensor::from(batch.tokens, {batch.rows, batch.length}), Tensor::from(batch.lengths, {batch.rows}),
          Tensor::from(batch.labels, {batch.rows})};
}

std::vector<int> largest_of_rows(const Tensor& logits) {
  std::vector<float> values = logits.to_vector<float>();
  std::int64_t classes = logits.size(1);
  std::vector<int> out;
  for (auto row = values.begin(); row != values.end(); row += classes)
    out.push_back(static_cast<int>(std::max_element(row, row + classes) - row));
  return out;
}

/// The class that the model gives each example.
std::vector<int> predict(EncoderClassifier& model, const EncodedExamples& examples, const BatchOptions& options) {
  NoGrad off;
  model.train(false);
  std::vector<int> predicted(examples.size());
  for (const PlannedBatch& plan : evaluation_batches(examples.lengths, options)) {
    Batch batch = fill(plan, examples);
    BatchTensors x = tensors_of(batch);
    std::vector<int> classes = largest_of_rows(model.forward(x.tokens, x.lengths).value());
    for (std::size_t row = 0; row < classes.size(); ++row)
      predicted[static_cast<std::size_t>(batch.indices[row])] = classes[row];
  }
  return predicted;
}

/// '1' where the prediction is the label.
std::string correctness(const std::vector<int>& predicted, const std::vector<int>& labels) {
  std::string out;
  for (std::size_t k = 0; k < labels.size(); ++k) out += predicted[k] == labels[k] ? '1' : '0';
  return out;
}

class ClassificationTask : public TrainingTask {
 public:
  ClassificationTask(EncoderClassifier& model, const EncodedData& data, const BatchOptions& batches, std::uint64_t seed)
      : model_(model), data_(data), batches_(batches), stream_(data.train, batches, seed) {}

  Variable next_loss() override {
    BatchTensors x = tensors_of(stream_.next());
    return cross_entropy_loss(model_.forward(x.tokens, x.lengths), x.labels);
  }
  Json place() const override { return {{"epoch", stream_.epoch()}, {"position", stream_.position()}}; }
  void seek(const Json& place) override { stream_.seek(place.at("epoch"), place.at("position")); }
  std::int64_t epoch() const override { return stream_.epoch(); }

  double score() override {
    std::string correct = correctness(predict(model_, data_.dev, batches_), data_.dev.labels);
    return 100.0 * static_cast<double>(std::count(correct.begin(), correct.end(), '1')) /
           static_cast<double>(correct.size());
  }
  std::string score_name() const override { return "accuracy"; }

 private:
  EncoderClassifier& model_;
  const EncodedData& data_;
  const BatchOptions& batches_;
  BatchStream stream_;
};

EncodedData encode_data(const ClassificationData& data, const Tokenizer& tokenizer, std::int64_t max_length) {
  return {encode(data.train, tokenizer, max_length), encode(data.dev, tokenizer, max_length),
          encode(data.test, tokenizer, max_length), data.classes, data.group};
}

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
  cli.add(text_);
  cli.add(model_);
  cli.add(batches);
  cli.add(training);
  cli.group("Comparison and output");
  cli.option("--compare", compare_,
             "attentions to train instead of --attention, separated by ';': \"global; gaussian\"");
  cli.option("--seeds", seeds_, "runs of each attention, with seeds --seed, --seed + 1, ...").range(1, 1000);
  cli.add(directory_);
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

ClassificationExperiment::Outcome ClassificationExperiment::train_one(const RunDirectory& directory,
                                                                      const Json& configuration,
                                                                      const std::string& attention, std::uint64_t seed,
                                                                      const EncodedData& data, int vocabulary) const {
  auto model = model_.make(attention, vocabulary, static_cast<std::int64_t>(data.classes.size()));
  if (std::filesystem::exists(directory.file("result.json")))
    return Outcome::from(load_json(directory.file("result.json")));
  save_json(directory.file("model.json"), {{"vocabulary", vocabulary}, {"classes", data.classes}});
  model->initialise(seed);
  default_generator() = Generator(seed);
  ClassificationTask task(*model, data, batches, seed);
  std::filesystem::path resume = directory_.resume.empty() ? directory_.out : directory_.resume;
  TrainingResult result =
      train(*model, task, training, {directory, configuration, fmt::format("{} seed {}", attention, seed), resume});
  Outcome outcome{attention,
                  seed,
                  model->parameter_count(),
                  result.updates,
                  static_cast<double>(result.updates) / result.seconds,
                  result.best_score,
                  correctness(predict(*model, data.test, batches), data.test.labels)};
  save_json(directory.file("result.json"), outcome.json());
  return outcome;
}

namespace {

/// What becomes of one attention's runs.
struct Row {
  std::string attention;
  std::vector<double> accuracies, speeds;
  std::int64_t parameters = 0;
  std::vector<double> scores;                   ///< per test example, averaged over seeds, in percent
  std::map<int, std::vector<double>> by_group;  ///< group → accuracy of each seed
};

/// Accuracy within each group of examples, in percent.
std::map<int, double> accuracy_by_group(const std::string& correct, const std::vector<int>& groups) {
  std::map<int, std::pair<double, double>> counts;
  for (std::size_t k = 0; k < correct.size(); ++k) {
    if (groups[k] < 0) continue;
    auto& [right, all] = counts[groups[k]];
    right += correct[k] == '1';
    all += 1;
  }
  std::map<int, double> out;
  for (auto& [group, count] : counts) out[group] = 100 * count.first / count.second;
  return out;
}

Table comparison_table(const std::vector<Row>& rows, const EncodedData& data) {
  std::vector<std::string> headings{"attention", "accuracy %"};
  std::vector<int> groups;
  for (auto& [group, accuracies] : rows.front().by_group) {
    groups.push_back(group);
    headings.push_back(fmt::format("{} {}", group, data.group));
  }
  headings.insert(headings.end(), {"parameters", "steps/s", "ratio", "p"});
  Table table(headings);
  const Row& first = rows.front();
  for (const Row& row : rows) {
    std::vector<Cell> cells{row.attention, Cell::mean_of(row.accuracies, 2)};
    for (int group : groups) cells.push_back(Cell::mean_of(row.by_group.at(group), 1));
    cells.emplace_back(row.parameters);
    cells.push_back(Cell::number(mean(row.speeds), 1));
    cells.push_back(Cell::number(mean(row.speeds) / mean(first.speeds), 2));
    cells.push_back(&row == &first ? Cell() : Cell::number(paired_bootstrap(first.scores, row.scores).p_two_sided, 3));
    table.row(cells);
  }
  return table;
}

}  // namespace

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
  EncodedData encoded = encode_data(data, *tokenizer, text_.max_length);

  std::vector<std::string> list = attentions();
  std::vector<Row> rows;
  Report report(program_, describe(data));
  for (const std::string& attention : list) {
    Row row;
    row.attention = attention;
    row.scores.assign(encoded.test.size(), 0);
    for (int k = 0; k < seeds_; ++k) {
      std::uint64_t seed = training.seed + static_cast<std::uint64_t>(k);
      std::optional<RunDirectory> part;
      Json own = configuration;
      if (list.size() * static_cast<std::size_t>(seeds_) > 1) {
        // Each run of a comparison is a run directory in its own right.
        part = directory.part(fmt::format("{} seed {}", attention, seed));
        own["attention"] = attention;
        own["seed"] = seed;
        own["compare"] = "";
        own["seeds"] = 1;
        save_json(part->configuration(), own);
        tokenizer->save(part->path());
      }
      Outcome outcome = train_one(part ? *part : directory, own, attention, seed, encoded, tokenizer->size());
      row.accuracies.push_back(outcome.accuracy());
      row.speeds.push_back(outcome.steps_per_second);
      row.parameters = outcome.parameters;
      for (std::size_t e = 0; e < row.scores.size(); ++e)
        row.scores[e] += (outcome.correct[e] == '1' ? 100.0 : 0.0) / seeds_;
      for (auto& [group, accuracy] : accuracy_by_group(outcome.correct, encoded.test.groups))
        row.by_group[group].push_back(accuracy);
    }
    rows.push_back(std::move(row));
  }
  Table table = comparison_table(rows, encoded);
  std::string caption = fmt::format(
      "Accuracy on {} test examples, mean ± standard deviation over {} seed{}. ratio: steps/s against the first row. "
      "p: two-sided "
      "paired bootstrap against the first row.",
      encoded.test.size(), seeds_, seeds_ == 1 ? "" : "s");
  fmt::print("\n{}{}\n", table.text(), caption);
  report.section("Accuracy").add(table, caption);
  report.section("Configuration").configuration(configuration);
  report.write(directory.report());
  fmt::print("\nrun directory: {}\n", directory.path().string());
}

void ClassificationExperiment::label_texts() const {
  std::filesystem::path directory = trained_;
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(directory);
  Json made = load_json(directory / "model.json");
  std::vector<std::string> classes = made.at("classes");
  auto model = model_.make(model_.attention, made.at("vocabulary"), static_cast<std::int64_t>(classes.size()));
  NamedTensors best;
  std::string file = directory / "best.safetensors";
  for (auto& [name, tensor] : read_safetensors(file).tensors) best[name] = tensor;
  load_state(*model, best, file);

  std::vector<Example> examples;
  LineReader reader(label_);
  for (std::string line; reader.next(line);) examples.push_back({.text = line});
  if (examples.empty()) return;
  EncodedExamples encoded = encode(examples, *tokenizer, text_.max_length);
  for (int label : predict(*model, encoded, batches)) fmt::print("{}\n", classes[static_cast<std::size_t>(label)]);
}

}  // namespace fovea
