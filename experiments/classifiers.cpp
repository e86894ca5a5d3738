// The tasks of classifiers. Sentiment of sentences and reviews: the Stanford Sentiment Treebank, IMDB, or a table of
// your own. Subject-verb agreement (Linzen et al. 2016): is the verb that follows these words singular or plural?
#include "autograd/operations.h"
#include "experiments/support/data/labelled_texts.h"
#include "experiments/support/tasks/classifier_task.h"
#include "nn/auxiliary_losses.h"
#include "nn/loss.h"

namespace {

using namespace fovea;

TrainingResult train(EncoderClassifier& model, const ClassificationOptions& options, const PairData& data,
                     const Run& run) {
  PairBatches batches(data.train, options.batches, run.seed);
  const auto optimizer = make_optimizer(model.parameters(), options.training.optimizer);
  const Schedule schedule = options.training.learning_rate();
  Training training(run, model, *optimizer, batches, options.training);  // continues from the run's checkpoint
  auto dev_scores = [&] { return std::vector{DevScore{"accuracy", accuracy(model, data.dev.pairs, options.batches)}}; };
  while (training.has_next_update()) {
    optimizer->zero_grad();
    for (const std::int64_t k : training.micro_batches()) {
      RandomScope random = training.random(k);  // of dropout
      AuxiliaryLosses auxiliary;                // of attention methods
      const PairBatch batch = batches.next();
      const Tensor lengths = batch.source_length_tensor();
      const Variable logits = model.forward(batch.source_tensor(), lengths);  // [B, classes]
      Variable loss = cross_entropy_loss(logits, batch.labels(), {}, Total::sum);
      const Tensor plain = loss.value();
      if (!auxiliary.empty()) loss = loss + sum(auxiliary.per_sentence(lengths));
      training.backward(loss, double(batch.rows), plain);
    }
    const auto [norm, count] = training.gradient();
    const double rate = schedule.rate(training.updates(), training.epoch());
    optimizer->step(rate, clip_scale(norm, options.training.clip, count));
    training.end_update(rate, dev_scores);
  }
  return training.finish(dev_scores);
}

const RegisteredTask tasks[] = {
    classifier_task<ClassifierOptions<SentimentOptions>>(
        "sentiment",
        "Trains Transformer encoders to label sentences or reviews with their sentiment, or any labels of your own.",
        train),
    classifier_task<ClassifierOptions<AgreementOptions>>(
        "agreement",
        "Trains Transformer encoders to predict the number of a verb from the words before it, and reports accuracy by "
        "the number of attractors: nouns of the other number between subject and verb.",
        train)};

}  // namespace
