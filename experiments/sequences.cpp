// The tasks of sequence models: translation, summarization and language modelling. An encoder-decoder reads a text and
// writes another one, word by word; a decoder alone predicts the next word of a text.
#include "autograd/operations.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/tasks/sequence_task.h"
#include "nn/auxiliary_losses.h"

namespace {

using namespace fovea;

struct Translation : SequenceOptions {
  Translation() {
    data.generate = generate_translation;
    data_help = "a directory of parallel files, or generated[:words=25,swap=0.3,...]";
    metrics = "bleu,ribes";
    select = "bleu";
  }
};

struct Summarization : SequenceOptions {
  Summarization() {
    data.generate = generate_summaries;
    data_help = "a directory of parallel files, or generated[:sentences=3-6,...]";
    metrics = "rouge";
    select = "bleu";
  }
};

struct LanguageModelling : SequenceOptions {
  LanguageModelling() {
    data.generate = generate_lines;
    data_help = "a text file, a directory of text files, or generated[:words=200,copies=0.15,...]";
    data.has_source = false;
  }
};

TrainingResult train(SequenceModel& model, const SequenceOptions& options, const PairData& data, const Run& run) {
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
      const Variable states = model.states(batch.read(model.has_source()));  // [B, T, d]
      const auto [weight, bias] = model.output();  // logits = states · weight + bias, [B, T, V]
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

const RegisteredTask tasks[] = {
    sequence_task<Translation>("translate",
                               "Trains encoder-decoders to translate, and reports BLEU, RIBES and speed; or translates "
                               "text with a trained one.",
                               train),
    sequence_task<Summarization>(
        "summarize",
        "Trains encoder-decoders to summarize, and reports ROUGE and speed; or summarizes text with a trained one.",
        train),
    sequence_task<LanguageModelling>("language_model",
                                     "Trains Transformer decoders to predict the next word of a text, and reports "
                                     "perplexity; or makes up text with a trained one.",
                                     train)};

}  // namespace
