// Summarization: an encoder-decoder reads an article and writes its headline.
#include "autograd/operations.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/tasks/sequence_task.h"
#include "nn/auxiliary_losses.h"

namespace {

using namespace fovea;

struct Options : SequenceOptions {
  Options() {
    data.generate = generate_summaries;
    data_help = "a directory of parallel files, or generated[:sentences=3-6,...]";
    metrics = "rouge";
    select = "bleu";
  }
};

TrainingResult train(SequenceModel& model, const Options& options, const PairData& data, const Run& run) {
  PairBatches batches(data.train, options.batches, run.seed);
  const auto optimizer = make_optimizer(model.parameters(), options.training.optimizer);
  const Schedule schedule = options.training.learning_rate();
  Training training(run, model, *optimizer, batches, options.training);  // continues from the run's checkpoint
  auto dev_scores = [&] { return development_scores(model, data, options); };
  while (training.has_next_update()) {
    optimizer->zero_grad();
    for (const std::int64_t k : training.micro_batches()) {
      RandomScope random = training.random(k);  // of dropout
      AuxiliaryLosses auxiliary;                // of attention methods
      const PairBatch batch = batches.next();
      const Variable states = model.states(batch.read(true));  // [B, T, d]
      const auto [weight, bias] = model.output();              // logits = states · weight + bias, [B, T, V]
      Tensor unsmoothed;
      Variable loss =
          projected_cross_entropy(states, weight, bias, batch.targets(),
                                  {.label_smoothing = options.label_smoothing, .ignored = pad_id}, &unsmoothed);
      const auto count = double(options.loss_per == LossPer::sentence ? batch.rows : batch.target_tokens);
      if (!auxiliary.empty()) loss = loss + mean(auxiliary.per_sentence(batch.target_length_tensor())) * count;
      training.backward(loss, count, unsmoothed);
    }
    const auto [norm, count] = training.gradient();
    const double rate = schedule.rate(training.updates(), training.epoch());
    optimizer->step(rate, clip_scale(norm, options.training.clip, count));
    training.end_update(rate, dev_scores);
  }
  return training.finish(dev_scores);
}

const RegisteredTask task(sequence_task(
    "summarize",
    "Trains encoder-decoders to summarize, and reports ROUGE and speed; or summarizes text with a trained one.",
    train));

}  // namespace
