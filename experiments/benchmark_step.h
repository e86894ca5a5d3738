/// The model that `benchmark step` trains, and its options.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention/engine/attend.h"
#include "experiments/benchmark.h"
#include "experiments/support/models/encoder_model.h"
#include "experiments/support/models/sequence_models.h"
#include "experiments/support/program/comparison.h"
#include "experiments/support/program/device_flag.h"
#include "nn/decoding.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "nn/parallel/gradient_sum.h"
#include "tensor/gemm.h"

namespace fovea {

enum class Task { translate, language_model, classify };

struct StepOptions {
  Task task = Task::translate;
  SequenceModelOptions model;
  Comparison comparison{"--attention"};
  std::int64_t vocabulary = 8000, batch_tokens = 4096, length = 32;
  double label_smoothing = 0.1;
  Precision precision = Precision::f32;
  AttentionEngine engine = AttentionEngine::fastest;
  int steps = 3, processes = 1;
  std::string classifier;
  bool launches = false;
  BenchmarkFlags run{.rounds = 10};

  Device device() const { return device_of(run.device_name); }

  std::int64_t rows() const { return batch_tokens / length; }
  std::int64_t tokens() const { return rows() * length; }

  EncoderModelOptions encoder() const {
    require(model.decoder_attention.empty() && model.cross_attention.empty(),
            "--task classify: an encoder; it has no --decoder-attention and no --cross-attention");
    EncoderModelOptions encoder;
    static_cast<TransformerFlags&>(encoder) = model;
    return encoder;
  }
  /// Throws Error for options that contradict each other, before anything is computed.
  void check_model() const {
    if (task == Task::classify)
      with_flag("--attention", [&] { encoder().make(model.attention.empty() ? "global" : model.attention, 4, 2); });
    else
      model.make(task == Task::translate ? 8 : 0, 8);
  }
};

/// The flags that --model stands for. tiny and base are the models of Nguyen et al. 2020, §5.3 and §5.1.
inline Json classifier(const std::string& name) {
  require(name == "tiny" || name == "base", "there is no model '{}'; use tiny or base", name);
  Json values = {{"task", "classify"}, {"vocabulary", 8192}, {"dropout", 0.1}};
  if (name == "tiny")
    values.update({{"layers", 2}, {"model-dim", 128}, {"heads", 4}, {"feed-forward-dim", 512}});
  else
    values.update({{"layers", 6}, {"model-dim", 512}, {"heads", 8}, {"feed-forward-dim", 2048}});
  return values;
}

/// A model with one random batch, on which each step trains it.
class Trainee {
 public:
  explicit Trainee(const StepOptions& options) : precision_(options.precision) {
    if (options.task == Task::classify)
      classify(options);
    else
      continue_sentences(options);
    model_->initialise(1);
    model_->to(options.device());
    optimizer_ = std::make_unique<AdamW>(model_->parameters(), AdamW::Options{});
  }

  void step() {
    step([](const Variable& loss) { backward(loss); });
  }
  /// A step whose gradients are those of all processes.
  void step(GradientSum& sum) {
    step([&](const Variable& loss) {
      sum.begin_update();
      sum.round(loss);
    });
  }
  const std::vector<NamedParameter>& named_parameters() const { return optimizer_->parameters(); }
  std::int64_t parameters() const { return model_->parameter_count(); }

 private:
  void step(const std::function<void(const Variable& loss)>& differentiate) {
    set_matmul_precision(precision_);
    RandomScope random({.seed = 1, .update = steps_++});
    Variable loss = loss_();
    optimizer_->zero_grad();
    differentiate(loss);
    optimizer_->step(1e-4, clip_scale(gradient_norm(optimizer_->parameters()), 1));
  }
  /// Makes an encoder with random labels, and random sentences of --length / 2 to --length tokens.
  void classify(const StepOptions& options) {
    std::shared_ptr<EncoderClassifier> model = options.encoder().make(
        options.model.attention.empty() ? "global" : options.model.attention, options.vocabulary, 2);
    RandomTokens random(options.vocabulary);
    std::vector<std::vector<std::int32_t>> sentences;
    std::vector<std::int32_t> labels;
    for (std::int64_t row = 0; row < options.rows(); ++row) {
      sentences.push_back(random.sentence(options.length / 2, options.length));
      labels.push_back(random.between(0, 1));
    }
    sentences[0] = random.sentence(options.length, options.length);
    PaddedTokens batch = padded_tokens(sentences);
    loss_ = [model, batch, targets = Tensor::from(labels, {options.rows()})] {
      return cross_entropy_loss(model->forward(batch.tokens, batch.lengths), targets);
    };
    model_ = model;
  }

  /// Makes a sequence model and random sentences for it. The programs batch sentences of similar length; here the
  /// shortest has 7/8 of --length.
  void continue_sentences(const StepOptions& options) {
    const bool translates = options.task == Task::translate;
    std::shared_ptr<SequenceModel> model = options.model.make(translates ? options.vocabulary : 0, options.vocabulary);
    RandomTokens random(options.vocabulary);
    std::vector<std::vector<std::int32_t>> sources, targets;
    std::int64_t count = 0;  // of targets that are not padding
    for (std::int64_t row = 0; row < options.rows(); ++row) {
      const std::int64_t shortest = row == 0 ? options.length : std::max<std::int64_t>(options.length * 7 / 8, 2);
      if (translates) sources.push_back(random.sentence(shortest, options.length));
      targets.push_back(random.sentence(shortest - 1, options.length - 1));  // and </s>
      count += std::int64_t(targets.back().size()) + 1;
    }
    const TeacherForcingBatch sentences = teacher_forcing_batch(sources, targets);
    loss_ = [model, sentences, count, smoothing = options.label_smoothing] {
      return model->loss(sentences.batch, sentences.targets, {.label_smoothing = smoothing, .ignored = 0}) /
             double(count);
    };
    model_ = model;
  }

  Precision precision_;
  std::int64_t steps_ = 0;
  std::shared_ptr<Module> model_;
  std::function<Variable()> loss_;
  std::unique_ptr<AdamW> optimizer_;
};

}  // namespace fovea
