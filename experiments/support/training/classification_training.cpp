#include "experiments/support/training/classification_training.h"

#include <algorithm>

#include "experiments/support/program/json_file.h"
#include "experiments/support/training/same_data.h"
#include "nn/checkpoint.h"
#include "nn/loss.h"
#include "tensor/random.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

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

/// '1' where the prediction is the label.
std::string correctness(const std::vector<int>& predicted, const std::vector<int>& labels) {
  std::string out;
  for (std::size_t k = 0; k < labels.size(); ++k) out += predicted[k] == labels[k] ? '1' : '0';
  return out;
}

double percent_correct(const std::string& correct) {
  return 100.0 * static_cast<double>(std::count(correct.begin(), correct.end(), '1')) /
         static_cast<double>(correct.size());
}

class ClassificationTask : public TrainingTask {
 public:
  ClassificationTask(EncoderClassifier& model, const EncodedData& data, const BatchOptions& batches, std::uint64_t seed)
      : model_(model), data_(data), batches_(batches), seed_(seed), stream_(data.train.lengths, batches, seed) {}

  double next_update(std::int64_t update, const std::function<void(const Variable&)>& add) override {
    std::int64_t texts = 0;
    for (std::int64_t k = 0; k < batches_.accumulate; ++k) {
      RandomScope random({.seed = seed_, .update = update, .micro_batch = k});
      Batch batch = fill(stream_.next(), data_.train);
      BatchTensors x = tensors_of(batch);
      add(cross_entropy_loss(model_.forward(x.tokens, x.lengths), x.labels, {}, Total::sum));
      texts += batch.rows;
    }
    return static_cast<double>(texts);
  }
  Json place() const override { return {{"epoch", stream_.epoch()}, {"position", stream_.position()}}; }
  void seek(const Json& place) override { stream_.seek(place.at("epoch"), place.at("position")); }
  std::int64_t epoch() const override { return stream_.epoch(); }

  double score() override {
    return percent_correct(correctness(predict(model_, data_.dev, batches_), data_.dev.labels));
  }
  std::string score_name() const override { return "accuracy"; }

 private:
  EncoderClassifier& model_;
  const EncodedData& data_;
  const BatchOptions& batches_;
  std::uint64_t seed_;
  BatchStream stream_;
};

Json to_json(const Outcome& outcome) {
  return {{"attention", outcome.attention},
          {"seed", outcome.seed},
          {"parameters", outcome.parameters},
          {"updates", outcome.updates},
          {"steps_per_second", outcome.steps_per_second},
          {"dev_accuracy", outcome.dev_accuracy},
          {"test_accuracy", outcome.accuracy()},
          {"correct", outcome.correct}};
}

/// Throws Error unless it is the result of these test examples.
Outcome load_outcome(const std::filesystem::path& path, std::size_t test_examples) {
  Json json = load_json(path);
  Outcome outcome;
  reading_run_file(path.string(), [&] {
    outcome = {json.at("attention"),        json.at("seed"),         json.at("parameters"), json.at("updates"),
               json.at("steps_per_second"), json.at("dev_accuracy"), json.at("correct")};
  });
  require(outcome.correct.size() == test_examples, "{}: the result of {} test examples; the data has {}", path.string(),
          outcome.correct.size(), test_examples);
  return outcome;
}

void write_hypotheses(const std::filesystem::path& path, const ClassificationData& data,
                      const std::vector<int>& predicted) {
  AtomicFile file(path);
  file.write("text\tgold\tpredicted\n");
  for (std::size_t k = 0; k < data.test.size(); ++k) {
    std::string text = data.test[k].text;
    std::replace(text.begin(), text.end(), '\t', ' ');
    file.write(fmt::format("{}\t{}\t{}\n", text, data.classes[static_cast<std::size_t>(data.test[k].label)],
                           data.classes[static_cast<std::size_t>(predicted[k])]));
  }
  file.commit();
}

}  // namespace

double Outcome::accuracy() const { return percent_correct(correct); }

EncodedData encode(const ClassificationData& data, const Tokenizer& tokenizer, std::int64_t max_length) {
  return {encode(data.train, tokenizer, max_length), encode(data.dev, tokenizer, max_length),
          encode(data.test, tokenizer, max_length)};
}

namespace {

Json fingerprint_of(const std::vector<Example>& texts, const EncodedExamples& examples) {
  DataHash hash;
  for (std::size_t k = 0; k < examples.size(); ++k) {
    hash.add(texts[k].text);  // words that are not in the vocabulary too
    hash.add(examples.lengths[k]);
    for (int token : examples.tokens[k]) hash.add(std::int64_t{token});
    hash.add(std::int64_t{examples.labels[k]});
    hash.add(std::int64_t{examples.groups[k]});
  }
  return hash.part(examples.size());
}

}  // namespace

Json fingerprint(const ClassificationData& data, const EncodedData& encoded) {
  return {{"train", fingerprint_of(data.train, encoded.train)},
          {"dev", fingerprint_of(data.dev, encoded.dev)},
          {"test", fingerprint_of(data.test, encoded.test)},
          {"classes", data.classes}};
}

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

Outcome train_classifier(const ClassificationSetting& setting, std::uint64_t seed, const TrainingRun& run) {
  const std::vector<std::string>& classes = setting.data.classes;
  auto result_file = run.directory.file("result.json"), hypotheses = run.directory.file(hypotheses_file);
  if (std::filesystem::exists(result_file) && std::filesystem::exists(hypotheses))
    return load_outcome(result_file, setting.data.test.size());
  const std::string& attention = setting.model.attention;
  auto model = setting.model.make(attention, setting.vocabulary, static_cast<std::int64_t>(classes.size()));
  save_json(run.directory.file("model.json"), {{"vocabulary", setting.vocabulary}, {"classes", classes}});
  model->initialise(seed);
  ClassificationTask task(*model, setting.encoded, setting.batches, seed);
  TrainingResult result = train(*model, task, setting.training, run);
  std::vector<int> predicted = predict(*model, setting.encoded.test, setting.batches);
  write_hypotheses(hypotheses, setting.data, predicted);
  Outcome outcome{attention,
                  seed,
                  model->parameter_count(),
                  result.updates,
                  static_cast<double>(result.updates) / result.seconds,
                  result.best_score,
                  correctness(predicted, setting.encoded.test.labels)};
  save_json(result_file, to_json(outcome));
  return outcome;
}

TrainedClassifier load_classifier(const std::filesystem::path& directory, const EncoderModelOptions& options) {
  auto made_file = directory / "model.json";
  Json made = load_json(made_file);
  TrainedClassifier trained;
  std::int64_t vocabulary = 0;
  reading_run_file(made_file.string(), [&] {
    vocabulary = made.at("vocabulary");
    trained.classes = made.at("classes");
  });
  trained.model = options.make(options.attention, vocabulary, static_cast<std::int64_t>(trained.classes.size()));
  load_state(*trained.model, directory / "best.safetensors");
  trained.model->train(false);
  return trained;
}

}  // namespace fovea
