#include "experiments/support/models/classification.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>

#include <fmt/core.h>
#include <unistd.h>

#include "autograd/operations.h"
#include "experiments/support/data/records.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/shared_work.h"
#include "nn/shapes_only.h"
#include "tensor/error.h"
#include "tensor/support/warning.h"

namespace fovea {

void ClassificationOptions::add_to(Cli& cli) {
  cli.group("Text");
  cli.add(text);
  cli.comparable(true);
  cli.add(model, training, batches);
  model.add_classifier(cli);
  cli.rare(
         "--init", initial,
         "begin with the parameters of this .safetensors file, of the best model of this run directory, or of a model "
         "as Hugging Face publishes it (--preset sets its sizes too)")
      .saved_as(lasting_path);
  cli.comparable(false);
  cli.group("Instead of training", false);
  cli.option("--model", trained, "the directory of a trained run; its flags hold, except for those that are given")
      .configures();
  cli.option("--label", label, "label the lines of this file with --model; - is standard input");
  cli.rare("--average-kept", average, "use the mean of this many last kept models of --model (--keep); 0: its best one")
      .range(0, 1000);
  cli.option("--probabilities", probabilities, "with --label: print the probability of each class after the label");
}

void ClassificationOptions::check() const {
  require(label.empty() == trained.empty(), "--label and --model need each other: --model runs/NAME --label FILE");
  require(!probabilities || !label.empty(), "--probabilities: only with --label");
  require(average == 0 || !trained.empty(), "--average-kept: only with --model");
  require(!begins_with_given() || std::filesystem::exists(initial), "--init {}: there is no such file or directory",
          initial.string());
  training.check();
  model.require_memory(trained.empty() ? 4 : 1);
  ShapesOnly instead_of_a_model;
  model.make(model.attention, special_tokens, 2);
}

void ClassificationOptions::check(const PairData& data) const {
  data.require_fitting(batches);
  const std::int64_t padded = padded_length(data.longest(), batches);
  require(model.positions != Positions::learned || padded <= model.longest,
          "--max-positions {}: the longest text has {} tokens with its padding; raise it, or set --max-length",
          model.longest, padded);
  if (begins_with_given()) initial_model(data, training.seed, true);
}

namespace {

/// Loads the parameters of --init. Of the last layer, the columns go to the classes of the same names; one of other
/// classes keeps its initial values.
void load_initial(EncoderClassifier& model, const std::string& initial, const PairData& data) {
  const bool is_run = std::filesystem::is_directory(initial);
  if (is_run) require_same_tokens(initial, data.tokenizers);
  std::vector<std::pair<Tensor, Tensor>> last_layer;  // its parameters, and copies of the initial ones
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name.starts_with("classifier."))
      last_layer.emplace_back(parameter.variable.value(), parameter.variable.value().clone());
  load_parameters(model, initial);
  const std::vector<std::string> theirs = is_run ? classes_of(initial) : data.classes;
  if (theirs == data.classes) return;
  const bool are_named_alike = std::ranges::is_permutation(theirs, data.classes);
  for (auto& [now, before] : last_layer) {
    const Tensor loaded = now.clone();
    for (std::int64_t k = 0; k < std::ssize(data.classes); ++k) {
      const auto place = std::ranges::find(theirs, data.classes[std::size_t(k)]) - theirs.begin();
      const int classes = now.rank() - 1;
      now.select(classes, k).copy_from(are_named_alike ? loaded.select(classes, place) : before.select(classes, k));
    }
  }
  if (!are_named_alike)
    warn(fmt::format("--init {}: its classes are {}, those of the data {}; the last layer begins anew", initial,
                     first_few(theirs), first_few(data.classes)));
}

}  // namespace

/// A model with random initial values or, if the training `begins` with them, those of --init.
std::unique_ptr<EncoderClassifier> ClassificationOptions::initial_model(const PairData& data, std::uint64_t seed,
                                                                        bool begins) const {
  std::unique_ptr<EncoderClassifier> made = model.make(model.attention, data.source_size(), std::ssize(data.classes));
  made->to(parse_device(training.device));
  made->initialise(seed);
  if (begins && !initial.empty()) load_initial(*made, initial, data);
  return made;
}

std::unique_ptr<EncoderClassifier> ClassificationOptions::make_model(const PairData& data, const Run& run) const {
  return initial_model(data, run.seed, !std::filesystem::exists(run.directory->checkpoint()));
}

namespace {

/// Loads the parameters of --model. Throws Error where they leave a layer behind the encoder as it began: the folder of
/// a model as Hugging Face publishes it may have no classifier.
void load_trained(EncoderClassifier& model, const ClassificationOptions& options) {
  std::vector<std::pair<NamedParameter, std::vector<float>>> initial;
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name == "pooler.weight" || parameter.name == "classifier.weight")
      initial.emplace_back(parameter, parameter.variable.value().to_vector<float>());
  load_parameters(model, options.trained, options.average);
  if (!is_hugging_face(options.trained)) return;
  for (const auto& [parameter, values] : initial)
    require(parameter.variable.value().to_vector<float>() != values,
            "--model {}: has no '{}' for these classes, so its labels would be random; --preset {} trains one",
            options.trained.string(), parameter.name, options.trained.string());
}

std::size_t most_probable(const std::vector<double>& probabilities) {
  return std::size_t(std::ranges::max_element(probabilities) - probabilities.begin());
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

ShownSentence shown_sentence(EncoderClassifier& model, const TestedExample& example,
                             const std::vector<std::int32_t>& tokens, const Tokenizer& tokenizer) {
  NoGrad off;
  const std::vector<std::int32_t> length{std::int32_t(tokens.size())};
  std::vector<AttentionTrace> traces;
  model.forward(Tensor::from(tokens, {1, length[0]}), Tensor::from(length, {1}), &traces);
  std::vector<std::string> words;
  for (int token : tokens) words.push_back(tokenizer.token(token));
  std::vector<const AttentionTrace*> layers;
  for (const AttentionTrace& each : traces) layers.push_back(&each);
  std::vector<Figure> pictures;
  for (const AttentionTrace* each : attentions_to_show(layers, 0)) {
    const auto layer = each - traces.data() + 1;
    for (Figure& figure : pictures_of(*each, fmt::format("layer {}", layer), words, words))
      pictures.push_back(std::move(figure));
  }
  constexpr std::size_t longest = 300;
  return {fmt::format("“{}”: {}, predicted {}.", shortened(example.input, longest), example.reference,
                      example.hypothesis == example.reference ? "rightly" : "wrongly as " + example.hypothesis),
          pictures};
}

/// The probability of each class for each text, in their order: [texts][classes].
std::vector<std::vector<double>> class_probabilities(EncoderClassifier& model, const EncodedPairs& texts,
                                                     const BatchOptions& batches) {
  NoGrad off;
  model.train(false);
  auto probabilities_of = [&](const PlannedBatch& plan) {
    const PairBatch batch = fill(plan, texts, batches);
    const Variable probabilities =
        softmax(model.forward(batch.source_tensor(), batch.source_length_tensor()));  // [B, classes]
    const std::vector<double> values = probabilities.value().to_vector<double>();
    std::vector<std::vector<double>> rows;
    for (auto first = values.begin(); first != values.end(); first += probabilities.size(1))
      rows.emplace_back(first, first + probabilities.size(1));
    return rows;
  };
  return for_examples<std::vector<double>>(std::ssize(texts.lengths), evaluation_batches(texts.lengths, batches),
                                           probabilities_of);
}

}  // namespace

double accuracy(EncoderClassifier& model, const EncodedPairs& texts, const BatchOptions& batches) {
  const std::vector<std::vector<double>> probabilities = class_probabilities(model, texts, batches);
  double right = 0;
  for (std::size_t k = 0; k < texts.size(); ++k) right += int(most_probable(probabilities[k])) == texts.target[k][0];
  return 100 * right / double(texts.size());
}

namespace {

TestResult test_model(EncoderClassifier& model, const PairSet& set, const PairData& data, const BatchOptions& batches) {
  TestResult test{.set = set.name, .metrics = {"accuracy"}};
  const std::vector<std::vector<double>> probabilities = class_probabilities(model, set.pairs, batches);
  double right = 0, hard = 0;  // of agreement: no noun between subject and verb, or attractors only
  for (std::size_t k = 0; k < set.texts.size(); ++k) {
    const TextPair& pair = set.texts[k];
    const std::string& predicted = data.classes[most_probable(probabilities[k])];
    test.examples.push_back({.input = pair.source,
                             .reference = pair.target,
                             .hypothesis = predicted,
                             .group = pair.group,
                             .probabilities = probabilities[k]});
    if (pair.is_hard) right += predicted == pair.target, ++hard;
  }
  test.measurements = accuracy_by_group(test.examples, data.group);
  if (hard > 0) test.measurements.push_back({"hard subset", 100 * right / hard, 2});
  return test;
}

}  // namespace

RunResult test_model(EncoderClassifier& model, const PairData& data, const ClassificationOptions& options,
                     const Run& run) {
  RunResult result{.parameters = model.parameter_count()};
  for (const PairSet& set : data.tests) result.tests.push_back(test_model(model, set, data, options.batches));
  constexpr std::size_t sentences = 3;
  const TestResult& first = result.tests.front();
  const EncodedPairs& pairs = data.tests.front().pairs;
  std::vector<ShownSentence> shown;
  for (std::size_t k : examples_to_show(first.examples, pairs.lengths, sentences))
    shown.push_back(shown_sentence(model, first.examples[k], {pairs.source[k].begin(), pairs.source[k].end()},
                                   *data.tokenizers.source));
  save_pictures(run.directory->path(), shown);
  return result;
}

void label_texts(const ClassificationOptions& options, const std::string& columns) {
  require_trained(options.trained);
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.trained);
  const std::vector<std::string> classes = classes_of(options.trained);
  require(classes.size() > 1, "--model {}: has one class, {}, so every text would get this label",
          options.trained.string(), classes.at(0));
  const std::unique_ptr<EncoderClassifier> model =
      options.model.make(options.model.attention, tokenizer->size(), std::ssize(classes));
  model->initialise(options.training.seed);
  load_trained(*model, options);
  model->to(parse_device(options.training.device));

  RecordFields fields;
  if (columns != automatic_columns) fields.names = {split_list(columns)[0]};
  RecordReader texts(options.label, record_format(options.label), {text_role}, fields);
  texts.keep_blank_lines();
  if (!texts.description().empty()) fmt::print(stderr, "{}: labels are for {}\n", texts.name(), texts.description());
  const bool is_typed = options.label == "-" && ::isatty(STDIN_FILENO);
  const std::size_t at_once = is_typed ? 1 : 1000;
  for (bool more = true; more;) {
    EncodedPairs pairs{.has_labels = true};
    std::exception_ptr trouble;  // the lines before it get their labels
    try {
      for (std::vector<std::string> text; pairs.size() < at_once && (more = texts.next(text));) {
        const std::vector<int> tokens = tokens_of(*tokenizer, text[0], options.text.max_length);
        texts.require_here(fits(std::ssize(tokens), options.batches),
                           "{} tokens, --batch-tokens is {}; raise it, or set --max-length to cut longer texts",
                           tokens.size(), options.batches.tokens);
        const std::int64_t padded = padded_length(std::ssize(tokens), options.batches);
        texts.require_here(options.model.positions != Positions::learned || padded <= options.model.longest,
                           "{} tokens with padding, --max-positions is {}; set --max-length to cut longer texts",
                           padded, options.model.longest);
        pairs.append(tokens, {});
      }
    } catch (const Error&) {
      trouble = std::current_exception();
    }
    for (const std::vector<double>& probabilities : class_probabilities(*model, pairs, options.batches)) {
      fmt::print("{}", classes[most_probable(probabilities)]);
      for (std::size_t c = 0; options.probabilities && c < classes.size(); ++c)
        fmt::print("\t{}={:.4f}", classes[c], probabilities[c]);
      fmt::print("\n");
    }
    std::fflush(stdout);
    if (trouble) std::rethrow_exception(trouble);
  }
}

}  // namespace fovea
