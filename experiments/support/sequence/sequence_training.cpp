#include "experiments/support/sequence/sequence_training.h"

#include <numeric>

#include "autograd/operations.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/vocabulary.h"
#include "nn/loss.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct PairTensors {
  SequenceBatch batch;
  Tensor targets;
};

PairTensors tensors_of(const PairBatch& batch, bool has_source) {
  PairTensors out;
  if (has_source) {
    out.batch.source = Tensor::from(batch.source, {batch.rows, batch.source_length});
    out.batch.source_lengths = Tensor::from(batch.source_lengths, {batch.rows});
  }
  out.batch.input = Tensor::from(batch.target_in, {batch.rows, batch.target_length});
  out.batch.lengths = Tensor::from(batch.target_lengths, {batch.rows});
  out.targets = Tensor::from(batch.target_out, {batch.rows, batch.target_length});
  return out;
}

/// The mean gate of each sentence over its real steps, [rows].
Variable mean_gates(const SequenceTrace& trace, const PairBatch& batch) {
  for (const AttentionTrace& attention : trace.decoder) {
    for (const auto& [name, gate] : attention.quantities) {
      if (name != "gate") continue;
      std::vector<double> share(static_cast<std::size_t>(batch.rows * batch.target_length));
      for (std::size_t k = 0; k < share.size(); ++k) {
        const auto row = k / static_cast<std::size_t>(batch.target_length);
        const auto step = static_cast<std::int64_t>(k) % batch.target_length;
        if (step < batch.target_lengths[row]) share[k] = 1.0 / batch.target_lengths[row];
      }
      Variable shares = Tensor::from(share, {batch.rows, batch.target_length}).to(gate.dtype());
      return sum(mean(gate, {1}) * shares, {1});  // gate [rows, H, T]
    }
  }
  fail("a model with the parameters of a gate shows none");  // require_gates() saw them
}

}  // namespace

void SequenceLossOptions::add_to(Cli& cli) {
  cli.option("--label-smoothing", label_smoothing, "probability that is spread over the whole vocabulary")
      .range(0, 0.99);
  cli.option("--gate", gate, "what large gates of flexible attention are worth, for fine-tuning (0.1, say)")
      .range(0, 100);
  cli.choice("--gate-norm", gate_norm, {{"token", GateNorm::token}, {"sentence", GateNorm::sentence}},
             "the loss beside it is a mean over tokens, or a sum over each sentence's");
}

void SequenceLossOptions::require_gates(const SequenceModel& model) const {
  const std::vector<NamedParameter> parameters = model.parameters();
  auto is_of_gate = [](const NamedParameter& parameter) {
    return parameter.name.find("flexible.gate") != std::string::npos;
  };
  require(gate == 0 || std::any_of(parameters.begin(), parameters.end(), is_of_gate),
          "--gate {}: no attention of this model has a gate; flexible attention does", gate);
}

SequenceTask::SequenceTask(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
                           const SequenceLossOptions& loss, std::uint64_t seed, std::string score_name,
                           std::function<double()> score)
    : model_(model),
      batches_(batches),
      loss_(loss),
      seed_(seed),
      stream_(pairs, batches, seed),
      score_name_(std::move(score_name)),
      score_(std::move(score)) {}

double SequenceTask::next_update(std::int64_t update, const std::function<void(const Variable&)>& add) {
  std::int64_t tokens = 0, sentences = 0;
  const bool by_sentence = loss_.gate > 0 && loss_.gate_norm == GateNorm::sentence;
  for (std::int64_t k = 0; k < batches_.accumulate; ++k) {
    RandomScope random({.seed = seed_, .update = update, .micro_batch = k});
    PairBatch batch = stream_.next();
    PairTensors x = tensors_of(batch, model_.has_source());
    SequenceTrace trace;
    Variable loss = model_.loss(x.batch, x.targets, {.label_smoothing = loss_.label_smoothing, .ignored = pad_id},
                                loss_.gate > 0 ? &trace : nullptr);
    if (loss_.gate > 0) {
      Variable gates = mean_gates(trace, batch);
      loss = loss - loss_.gate * (by_sentence ? sum(gates) : mean(gates) * static_cast<double>(batch.target_tokens));
    }
    add(loss);
    tokens += batch.target_tokens;
    sentences += batch.rows;
  }
  return static_cast<double>(by_sentence ? sentences : tokens);
}

void for_teaching_batches(
    SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
    const std::function<void(const PairBatch&, const SequenceBatch& read, const Tensor& targets)>& body) {
  NoGrad off;
  model.train(false);
  for (const PlannedBatch& plan : evaluation_batches(pairs.lengths, batches)) {
    PairBatch batch = fill(plan, pairs, batches);
    PairTensors x = tensors_of(batch, model.has_source());
    body(batch, x.batch, x.targets);
  }
}

std::vector<Likelihood> likelihoods(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
                                    const std::function<void(std::int64_t sentences)>& progress) {
  std::vector<Likelihood> all(pairs.size());
  for_teaching_batches(model, pairs, batches,
                       [&](const PairBatch& batch, const SequenceBatch& read, const Tensor& targets) {
                         Variable logits = model.logits(read);
                         const std::int64_t tokens = batch.rows * batch.target_length;
                         Variable each = cross_entropy(reshape(logits, {tokens, model.vocabulary()}),
                                                       targets.reshape({tokens}), {.ignored = pad_id});
                         std::vector<double> nll = each.value().to_vector<double>();
                         for (std::size_t row = 0; row < batch.indices.size(); ++row) {
                           Likelihood& sentence = all[static_cast<std::size_t>(batch.indices[row])];
                           auto first = nll.begin() + static_cast<std::ptrdiff_t>(row) * batch.target_length;
                           sentence.tokens = batch.target_lengths[row];
                           sentence.negative_log = std::accumulate(first, first + sentence.tokens, 0.0);
                         }
                         if (progress) progress(batch.rows);
                       });
  return all;
}

}  // namespace fovea
