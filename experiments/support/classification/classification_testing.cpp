#include "experiments/support/classification/classification_testing.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>

#include <fmt/core.h>
#include <unistd.h>

#include "autograd/operations.h"
#include "experiments/support/data/texts_to_label.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/training/run.h"
#include "experiments/support/training/shared_work.h"

namespace fovea {

namespace {

std::size_t most_probable(const std::vector<double>& probabilities) {
  return static_cast<std::size_t>(std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
}

/// The percentage of right answers in each group of examples.
std::vector<Measurement> accuracy_by_group(const std::vector<TestedExample>& examples, const std::string& group) {
  struct Count {
    double right = 0, all = 0;
  };
  std::map<int, Count> counts;
  for (const TestedExample& example : examples) {
    if (example.group < 0) continue;
    counts[example.group].right += example.hypothesis == example.reference;
    counts[example.group].all += 1;
  }
  std::vector<Measurement> measurements;
  for (const auto& [value, count] : counts)
    measurements.push_back({fmt::format("{}: {}", group, value), 100 * count.right / count.all, 1});
  return measurements;
}

ShownSentence shown_sentence(EncoderClassifier& model, const TestedExample& example, const std::vector<int>& tokens,
                             const Tokenizer& tokenizer) {
  NoGrad off;
  const auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<AttentionTrace> traces;
  model.forward(Tensor::from(tokens, {1, length}), Tensor::from(std::vector<std::int32_t>{std::int32_t(length)}, {1}),
                &traces);
  std::vector<std::string> words;
  for (int token : tokens) words.push_back(tokenizer.token(token));
  std::vector<const AttentionTrace*> layers;
  for (const AttentionTrace& each : traces) layers.push_back(&each);
  SentencePictures pictures;
  for (const AttentionTrace* each : attentions_to_show(layers, 0)) {
    const auto layer = std::find(layers.begin(), layers.end(), each) - layers.begin() + 1;
    SentencePictures more = pictures_of(*each, fmt::format("layer {}", layer), words, words);
    std::move(more.maps.begin(), more.maps.end(), std::back_inserter(pictures.maps));
    std::move(more.curves.begin(), more.curves.end(), std::back_inserter(pictures.curves));
  }
  constexpr std::size_t longest = 300;
  return {fmt::format("“{}”: {}, predicted {}.", shortened(example.input, longest), example.reference,
                      example.hypothesis == example.reference ? "rightly" : "wrongly as " + example.hypothesis),
          pictures};
}

}  // namespace

std::vector<std::vector<double>> class_probabilities(EncoderClassifier& model, const EncodedExamples& examples,
                                                     const BatchOptions& batches) {
  NoGrad off;
  model.train(false);
  auto probabilities_of = [&](const PlannedBatch& plan) {
    const TextBatch batch = fill(plan, examples);
    const Variable probabilities = softmax(model.forward(batch.token_tensor(), batch.length_tensor()));  // [B, classes]
    const std::vector<double> values = probabilities.value().to_vector<double>();
    std::vector<std::vector<double>> rows;
    for (auto first = values.begin(); first != values.end(); first += probabilities.size(1))
      rows.emplace_back(first, first + probabilities.size(1));
    return rows;
  };
  return for_examples<std::vector<double>>(std::ssize(examples.lengths), evaluation_batches(examples.lengths, batches),
                                           probabilities_of);
}

double accuracy(EncoderClassifier& model, const EncodedExamples& examples, const BatchOptions& batches) {
  const std::vector<std::vector<double>> probabilities = class_probabilities(model, examples, batches);
  double right = 0;
  for (std::size_t k = 0; k < examples.size(); ++k)
    right += most_probable(probabilities[k]) == static_cast<std::size_t>(examples.labels[k]);
  return 100 * right / static_cast<double>(examples.size());
}

namespace {

TestResult test_model(EncoderClassifier& model, const LabelledData::TestSet& set, const ClassificationData& data,
                      const BatchOptions& batches) {
  TestResult test{.set = set.name, .metrics = {"accuracy"}};
  const std::vector<std::vector<double>> probabilities = class_probabilities(model, set.examples, batches);
  for (std::size_t k = 0; k < set.examples.size(); ++k)
    test.examples.push_back({.input = set.texts[k].text,
                             .reference = data.classes[static_cast<std::size_t>(set.examples.labels[k])],
                             .hypothesis = data.classes[most_probable(probabilities[k])],
                             .group = set.examples.groups[k],
                             .probabilities = probabilities[k]});
  test.measurements = accuracy_by_group(test.examples, data.group);
  double right = 0, hard = 0;  // of agreement: no noun between subject and verb, or attractors only
  for (std::size_t k = 0; k < set.texts.size(); ++k) {
    if (!set.texts[k].is_hard) continue;
    right += test.examples[k].hypothesis == test.examples[k].reference, ++hard;
  }
  if (hard > 0) test.measurements.push_back({"hard subset", 100 * right / hard, 2});
  return test;
}

}  // namespace

RunResult test_model(EncoderClassifier& model, const LabelledData& data, const ClassificationOptions& options,
                     const Run& run) {
  RunResult result{.parameters = model.parameter_count()};
  for (const LabelledData::TestSet& set : data.tests)
    result.tests.push_back(test_model(model, set, data.texts, options.batches));
  constexpr std::size_t sentences = 3;
  const TestResult& first = result.tests.front();
  const EncodedExamples& encoded = data.tests.front().examples;
  std::vector<ShownSentence> shown;
  for (std::size_t k : examples_to_show(first.examples, encoded.lengths, sentences))
    shown.push_back(shown_sentence(model, first.examples[k], encoded.tokens[k], *data.tokenizer));
  save_pictures(run.directory->path(), shown);
  return result;
}

namespace {

/// A trained model with its vocabulary and classes.
class Labeller {
 public:
  explicit Labeller(const ClassificationOptions& options)
      : options_(options), tokenizer_(load_tokenizer(options.trained)), classes_(classes_of(options.trained)) {
    model_ = options.model.make(options.model.attention, tokenizer_->size(), std::ssize(classes_));
    load_parameters(*model_, options.trained, options.average);
    model_->to(parse_device(options.training.device));
  }

  std::int64_t tokens(const Example& example) const {
    return encode({&example, 1}, *tokenizer_, options_.text.max_length).lengths[0];
  }

  void print_labels(const std::vector<Example>& examples) {
    const EncodedExamples encoded = encode(examples, *tokenizer_, options_.text.max_length);
    for (const std::vector<double>& probabilities : class_probabilities(*model_, encoded, options_.batches)) {
      fmt::print("{}", classes_[most_probable(probabilities)]);
      for (std::size_t c = 0; options_.probabilities && c < classes_.size(); ++c)
        fmt::print("\t{}={:.4f}", classes_[c], probabilities[c]);
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

 private:
  const ClassificationOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  std::unique_ptr<EncoderClassifier> model_;
};

}  // namespace

void label_texts(const ClassificationOptions& options, const std::string& columns) {
  require_trained(options.trained);
  Labeller labeller(options);
  TextsToLabel texts(options.label, classes_of(options.trained), columns);
  const bool is_typed = options.label == "-" && ::isatty(STDIN_FILENO);
  const std::size_t at_once = is_typed ? 1 : 1000;
  bool has_note = false;
  for (bool more = true; more;) {
    std::vector<Example> examples;
    std::exception_ptr trouble;  // the lines before it get their labels
    try {
      for (std::string text; examples.size() < at_once && (more = texts.next(text));) {
        Example example{.text = text};
        const std::int64_t tokens = labeller.tokens(example);
        texts.require_here(fits(tokens, options.batches),
                           "{} tokens, --batch-tokens is {}; raise it, or set --max-length to cut longer texts", tokens,
                           options.batches.tokens);
        examples.push_back(std::move(example));
      }
    } catch (const Error&) {
      trouble = std::current_exception();
    }
    if (!has_note && !texts.note().empty()) fmt::print(stderr, "{}\n", texts.note());
    has_note = true;
    labeller.print_labels(examples);
    if (trouble) std::rethrow_exception(trouble);
  }
}

}  // namespace fovea
