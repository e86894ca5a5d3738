// Language modelling: a Transformer decoder predicts the next word of a text.
#include "autograd/operations.h"
#include "experiments/support/data/generated_text.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_options.h"
#include "experiments/support/sequence/sequence_testing.h"
#include "experiments/support/training/experiment.h"
#include "nn/auxiliary_losses.h"

namespace {

using namespace fovea;

struct Options : SequenceOptions {
  Options() {
    data.generate = generate_lines;
    data_help = "a text file, a directory of text files, or generated[:words=200,copies=0.15,...]";
    data.has_source = false;
  }
};

/// Trains one row with one seed. `model` has its initial values, and has the best ones at the end.
TrainingResult train(SequenceModel& model, const Options& options, const PairData& data, const Run& run) {
  PairBatches batches(data.train, options.batches, run.seed);
  Training training(run, model, options.training, batches);
  auto dev_scores = [&] { return development_scores(model, data, options); };
  while (training.has_next_update()) {
    for (const std::int64_t k : training.micro_batches()) {
      RandomScope random = training.random(k);  // of dropout
      AuxiliaryLosses auxiliary;                // of attention methods
      const PairBatch batch = batches.next();
      Tensor unsmoothed;
      Variable loss = model.loss(batch.read(false), batch.targets(),
                                 {.label_smoothing = options.label_smoothing, .ignored = pad_id}, &unsmoothed);
      const auto count = static_cast<double>(options.loss_per == LossPer::sentence ? batch.rows : batch.target_tokens);
      if (!auxiliary.empty()) loss = loss + mean(auxiliary.per_sentence(batch.target_length_tensor())) * count;
      training.add(loss, count, unsmoothed);
    }
    training.update(dev_scores);
  }
  return training.finish(dev_scores);
}

}  // namespace

int main(int argc, char** argv) {
  return run("language_model", argc, argv, [](Cli& cli) {
    Experiment<Options> experiment(cli,
                                   "Trains Transformer decoders to predict the next word of a text, and reports "
                                   "perplexity; or makes up text with a trained one.");
    const Options& options = experiment.options();
    const Use use = options.trained.use(cli);
    if (use == Use::sampling) return sample_texts(options);
    experiment.check([](const Options& row) { row.check(); });
    if (options.parameters) return print_parameters_of(experiment);
    if (use == Use::evaluation) {
      const PairData data(options.data, options.batches, load_tokenizers(options.trained.directory),
                          options.trained.part(), !options.trained.json);
      return experiment.test(options.trained.json, [&](const Options& row, const Run& run) {
        return test_model(*row.load_model(data.tokenizers), data, row, run);
      });
    }
    const PairData data(options.data, options.batches, experiment.directory());
    experiment.check([&](const Options& row) { row.check(data); });
    experiment.train(data, [&](const Options& row, const Run& run) {
      const std::unique_ptr<SequenceModel> model = row.make_model(data, run);
      const TrainingResult training = train(*model, row, data, run);
      RunResult result = test_model(*model, data, row, run);
      result.training = training;
      return result;
    });
  });
}
