// Tagging, a label for every word of a sentence: a complete task of one's own, with its model.
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/task.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/data/pair_data.h"
#include "experiments/support/models/encoder_model.h"
#include "experiments/support/training/experiment.h"
#include "experiments/support/training/shared_work.h"
#include "nn/loss.h"
#include "tensor/top_k.h"

namespace {

using namespace fovea;

struct Options {
  PairDataOptions data;  // the words are the source, the tags the target
  EncoderModelOptions model;
  TrainingOptions training;
  BatchOptions batches;

  void add_to(Cli& cli) {
    data.generate = generate_tags;
    data.corpus.lines.has_words = true;
    data.text.joint = false;  // words and tags have vocabularies of their own
    data.add_to(cli, "files of words and tags, a sentence a line, or generated[:words=25,swap=0.3,...]");
    cli.comparable(true);
    cli.add(model, training, batches);
  }
  /// Throws Error, with the flag, for values with which nothing can be trained.
  void check() const {
    training.check();
    model.check();
  }
};

/// logits = encoder(dropout(embedding + position)) W + b, for each word.
class Tagger : public Module {
 public:
  Tagger(const EncoderModelOptions& options, std::int64_t words, std::int64_t tags)
      : embedding_(words, options.model_dim, {.padding = pad_id, .scale = true}),
        positions_(Positions::sinusoidal, options.model_dim, 0),
        encoder_(options.encoder(), Place::encoder, encoder_layer(options.factory())),
        output_(options.model_dim, tags) {
    child("embedding", embedding_);
    child("encoder", encoder_);
    child("output", output_);
  }
  /// tokens [B, T], lengths [B] → [B, T, tags]
  Variable forward(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces = nullptr) {
    const Variable embedded = positions_.forward(embedding_.forward(tokens));
    return output_.forward(encoder_.forward({.states = embedded, .lengths = lengths, .traces = traces}));
  }

 private:
  Embedding embedding_;
  PositionEncoding positions_;
  TransformerStack encoder_;
  Linear output_;
};

/// The most probable tags of each sentence, beside the right ones.
TestResult test(Tagger& model, const PairSet& set, const PairTokenizers& tokenizers, const BatchOptions& batches) {
  NoGrad off;
  model.train(false);
  TestResult result{.set = set.name, .metrics = {"word-accuracy"}};
  for (const TextPair& pair : set.texts) result.examples.push_back({.input = pair.source, .reference = pair.target});
  auto tags_of = [&](const PlannedBatch& plan) {
    const PairBatch batch = fill(plan, set.pairs, batches);
    const std::vector<int> tags = top_k(model.forward(batch.source_tensor(), batch.source_length_tensor()).value(), 1)
                                      .index.to_vector<int>();  // [B, T]
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < batch.indices.size(); ++row) {
      const std::span own(tags.data() + row * batch.source_length, batch.target_lengths[row] - 1);  // without </s>
      texts.push_back(tokenizers.target->decode(own));
    }
    return texts;
  };
  const auto tags =
      for_examples<std::string>(set.texts.size(), evaluation_batches(set.pairs.lengths, batches), tags_of);
  for (std::size_t k = 0; k < tags.size(); ++k) result.examples[k].hypothesis = tags[k];
  return result;
}

/// Trains and tests one row with one seed.
RunResult train_and_test(const Options& options, const PairData& data, const Run& run) {
  Tagger model(options.model, data.source_size(), data.target_size());
  model.to(parse_device(options.training.device));
  model.initialise(run.seed);
  PairBatches batches(data.train, options.batches, run.seed);
  const auto optimizer = make_optimizer(model.parameters(), options.training.optimizer);
  const Schedule schedule = options.training.learning_rate();
  Training training(run, model, *optimizer, batches, options.training);  // continues from the run's checkpoint
  auto dev_scores = [&] { return dev_scores_of(test(model, data.dev, data.tokenizers, options.batches)); };
  while (training.has_next_update()) {
    optimizer->zero_grad();
    for (const std::int64_t k : training.micro_batches()) {
      RandomScope random = training.random(k);  // of dropout
      const PairBatch batch = batches.next();
      auto loss = cross_entropy_loss(model.forward(batch.source_tensor(), batch.source_length_tensor()),
                                     batch.targets(), {.ignored = pad_id}, Total::sum);
      training.backward(loss, double(batch.target_tokens));
    }
    const auto [norm, count] = training.gradient();
    const double rate = schedule.rate(training.updates(), training.epoch());
    optimizer->step(rate, clip_scale(norm, options.training.clip, count));
    training.end_update(rate, dev_scores);
  }
  RunResult result{.parameters = model.parameter_count(), .training = training.finish(dev_scores)};
  for (const PairSet& set : data.tests) result.tests.push_back(test(model, set, data.tokenizers, options.batches));
  return result;
}

void program(Cli& cli) {
  Experiment<Options> experiment(cli, "Trains Transformer encoders to tag every word of a sentence.");
  experiment.check([](const Options& row) { row.check(); });
  const PairData data(experiment.options().data, experiment.directory());
  experiment.check([&](const Options& row) { data.require_fitting(row.batches); });
  experiment.train(data, [&](const Options& row, const Run& run) { return train_and_test(row, data, run); });
}

/// Opens a run for `analyze`.
std::unique_ptr<AnalyzedRun> open(const std::filesystem::path& run, Part part, const std::vector<std::string>& flags) {
  const auto options = options_of_run<Options>(run, flags);
  const PairTokenizers vocabularies = load_tokenizers(run);
  auto owned = std::make_unique<Tagger>(options.model, vocabularies.source->size(), vocabularies.target->size());
  auto predict = [tagger = owned.get(), tags = vocabularies.target](const Tensor& tokens, const Tensor& lengths,
                                                                    std::vector<AttentionTrace>* traces) {
    const std::vector<int> best = top_k(tagger->forward(tokens, lengths, traces).value(), 1).index.to_vector<int>();
    return tags->decode(std::span(best).first(best.size() - 1));  // without </s>
  };
  auto data = [options](const PairTokenizers& tokenizers, Part wanted) {
    return PairData(options.data, tokenizers, wanted, false);
  };
  return open_encoder_run(
      run, {std::move(owned), options.model.attention, options.data.text.max_length, true, predict, data}, part);
}

const RegisteredTask task({"tagging", program, open});

}  // namespace
