// Subject-verb agreement (Linzen et al. 2016): is the verb that follows these words singular or plural?
#include "autograd/operations.h"
#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/classification/classification_testing.h"
#include "experiments/support/data/agreement_data.h"
#include "experiments/support/program/program.h"
#include "experiments/support/training/experiment.h"
#include "nn/auxiliary_losses.h"
#include "nn/loss.h"

namespace {

using namespace fovea;

struct Options : ClassificationOptions {
  AgreementOptions data;

  void add_to(Cli& cli) {
    cli.group("Data");
    cli.add(data);
    ClassificationOptions::add_to(cli);
  }
};

/// Trains one row with one seed. `model` has its initial values, and has the best ones at the end.
TrainingResult train(EncoderClassifier& model, const Options& options, const LabelledData& data, const Run& run) {
  TextBatches batches(data.train, options.batches, run.seed);
  Training training(run, model, options.training, batches);
  auto dev_scores = [&] { return std::vector{DevScore{"accuracy", accuracy(model, data.dev, options.batches)}}; };
  while (training.has_next_update()) {
    for (const std::int64_t k : training.micro_batches()) {
      RandomScope random = training.random(k);  // of dropout
      AuxiliaryLosses auxiliary;                // of attention methods
      const TextBatch batch = batches.next();
      const Tensor lengths = batch.length_tensor();
      const Variable logits = model.forward(batch.token_tensor(), lengths);
      Variable loss = cross_entropy_loss(logits, batch.label_tensor(), {}, Total::sum);
      const Tensor plain = loss.value();
      if (!auxiliary.empty()) loss = loss + sum(auxiliary.per_sentence(lengths));
      training.add(loss, static_cast<double>(batch.rows), plain);
    }
    training.update(dev_scores);
  }
  return training.finish(dev_scores);
}

}  // namespace

int main(int argc, char** argv) {
  return run("agreement", argc, argv, [](Cli& cli) {
    Experiment<Options> experiment(cli,
                                   "Trains Transformer encoders to predict the number of a verb from the words before "
                                   "it, and reports accuracy by the "
                                   "number of attractors: nouns of the other number between subject and verb.");
    const Options& options = experiment.options();
    if (options.list_attentions) return fmt::print("{}", attention_catalogue());
    experiment.check([](const Options& row) { row.check(); });
    if (!options.label.empty()) return label_texts(options);
    ClassificationData texts = load(options.data);
    const LabelledData data(std::move(texts), options.text, experiment.directory());
    experiment.check([&](const Options& row) { data.require_fitting(row.batches); });
    experiment.train(data, [&](const Options& row, const Run& run) {
      const std::unique_ptr<EncoderClassifier> model = row.make_model(data, run.seed);
      const TrainingResult training = train(*model, row, data, run);
      RunResult result = test_model(*model, data, row, run);
      result.training = training;
      return result;
    });
  });
}
