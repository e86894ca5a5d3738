// Whole training steps of an encoder classifier, one attention against another.
#include <memory>

#include <omp.h>

#include "attention/method.h"
#include "experiments/benchmark.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"
#include "experiments/support/training/encoder_model.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "tensor/gemm.h"
#include "tensor/parallel.h"
#include "tensor/random.h"

namespace fovea {

namespace {

struct StepOptions {
  std::string model = "tiny";
  std::int64_t batch_tokens = 4096, length = 32;
  std::string attention = "global; relative; gaussian; window(use=multiplicative); window(use=additive)";
  std::string precision = "f32", engine = "fastest";
  int rounds = 10, steps = 3, threads = 0;
  bool json = false;
};

EncoderModelOptions model_options(const std::string& name) {
  if (name == "tiny") return {};
  return {.layers = 6, .model_dim = 512, .heads = 8, .feed_forward_dim = 2048};
}

/// Sentences of half to the whole length, random words and labels.
struct RandomBatch {
  Tensor tokens, lengths, labels;
  RandomBatch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary) {
    Generator generator(7);
    Tensor random = Tensor::empty({rows, length + 2}, DType::f64);
    fill_uniform(random, generator, 0, 1);
    tokens = Tensor::zeros({rows, length}, DType::i32);
    lengths = Tensor::empty({rows}, DType::i32);
    labels = Tensor::empty({rows}, DType::i32);
    const double* next = random.data<double>();
    for (std::int64_t row = 0; row < rows; ++row) {
      auto real =
          static_cast<std::int32_t>(length - static_cast<std::int64_t>(*next++ * static_cast<double>(length) / 2));
      lengths.data<std::int32_t>()[row] = real;
      labels.data<std::int32_t>()[row] = *next++ < 0.5;
      for (std::int64_t t = 0; t < length; ++t, ++next)
        if (t < real)
          tokens.data<std::int32_t>()[row * length + t] =
              4 + static_cast<std::int32_t>(*next * static_cast<double>(vocabulary - 4));
    }
  }
};

/// A model that is trained on one batch again and again.
class Trainee {
 public:
  static constexpr std::int64_t vocabulary = 8192;

  Trainee(const EncoderModelOptions& options, const std::string& attention)
      : model_(options.make(attention, vocabulary, 2)), optimizer_(initialised(*model_), {}) {}

  void step(const RandomBatch& batch) {
    Variable loss = cross_entropy_loss(model_->forward(batch.tokens, batch.lengths), batch.labels);
    optimizer_.zero_grad();
    backward(loss);
    optimizer_.step(1e-4, clip_scale(gradient_norm(optimizer_.parameters()), 1));
  }
  std::int64_t parameters() const { return model_->parameter_count(); }

 private:
  static std::vector<NamedParameter> initialised(Module& model) {
    model.initialise(1);
    return model.parameters();
  }
  std::unique_ptr<EncoderClassifier> model_;
  AdamW optimizer_;
};

/// The fused engine's own products are not counted where they are made; the composed form's are.
double flops_of_step(Trainee& trainee, const RandomBatch& batch) {
  AttentionEngine before = attention_engine();
  set_attention_engine(AttentionEngine::composed);
  reset_gemm_statistics();
  trainee.step(batch);
  set_attention_engine(before);
  return gemm_statistics().flops;
}

struct StepResult {
  std::string attention;
  std::int64_t parameters = 0;
  std::size_t peak_bytes = 0;
  std::uint64_t system_allocations = 0;  ///< in the timed steps
  double gemm_share = 0;
  double flops = 0;             ///< of a step's products, as the composed form has them
  std::vector<double> seconds;  ///< per step, one entry a round
};

}  // namespace

void benchmark_step(Cli& cli) {
  StepOptions options;
  cli.describe("Times whole training steps (forward, backward, clipping, Adam) of an encoder classifier.");
  cli.option("--model", options.model, "tiny: 2 layers of 128; base: 6 layers of 512").one_of({"tiny", "base"});
  cli.option("--batch-tokens", options.batch_tokens, "tokens of a batch, padding included")
      .range(1, 1e9)
      .unit("tokens");
  cli.option("--length", options.length, "padded length of a sentence; real ones have half of it to all").range(2, 1e6);
  cli.option("--attention", options.attention, "attentions to time, separated by ';'; global is always among them");
  cli.option("--precision", options.precision, "of matrix products").one_of({"f32", "bf16"});
  cli.option("--rounds", options.rounds, "each times every attention once").range(1, 1000);
  cli.option("--steps", options.steps, "per round and attention").range(1, 1000);
  cli.option("--engine", options.engine, "how attention is computed").one_of({"fastest", "fused", "composed"});
  cli.option("--threads", options.threads, "0: one per core").range(0, 1024);
  cli.option("--json", options.json, "one JSON object a line instead of the table");
  cli.parse();
  require(options.batch_tokens >= options.length, "--batch-tokens {}: less than one sentence of --length {}",
          options.batch_tokens, options.length);
  if (options.threads > 0) omp_set_num_threads(options.threads);
  set_matmul_precision(options.precision == "bf16" ? Precision::bf16 : Precision::f32);
  set_flush_denormals(true);
  set_attention_engine(options.engine == "fastest" ? AttentionEngine::fastest
                       : options.engine == "fused" ? AttentionEngine::fused
                                                   : AttentionEngine::composed);

  EncoderModelOptions model = model_options(options.model);
  model.require_memory(options.batch_tokens);
  std::int64_t rows = options.batch_tokens / options.length, tokens = rows * options.length;
  RandomBatch batch(rows, options.length, Trainee::vocabulary);
  std::vector<std::string> attentions = split_at_semicolons(options.attention);
  attentions.erase(std::remove(attentions.begin(), attentions.end(), "global"), attentions.end());
  attentions.insert(attentions.begin(), "global");
  for (const std::string& attention : attentions) with_flag("--attention", [&] { model.make(attention, 4, 2); });

  std::vector<std::unique_ptr<Trainee>> trainees;
  std::vector<StepResult> results;
  for (const std::string& attention : attentions) {
    std::size_t before = allocator_statistics().bytes_in_use;
    reset_peak();
    trainees.push_back(std::make_unique<Trainee>(model, attention));
    for (int step = 0; step < 3; ++step) trainees.back()->step(batch);  // warms up caches and the allocator
    StepResult result;
    result.peak_bytes = allocator_statistics().peak_bytes - before;
    result.flops = flops_of_step(*trainees.back(), batch);
    result.attention = attention;
    result.parameters = trainees.back()->parameters();
    results.push_back(result);
  }
  // Blocks that one model freed serve another: once around settles who needs what.
  for (int warming = 0; warming < 2; ++warming)
    for (auto& trainee : trainees) trainee->step(batch);
  std::vector<double> gemm_seconds(trainees.size(), 0);
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t k = 0; k < trainees.size(); ++k) {
      reset_gemm_statistics();
      std::uint64_t before = allocator_statistics().system_allocations;
      double seconds = seconds_of([&] {
        for (int step = 0; step < options.steps; ++step) trainees[k]->step(batch);
      });
      results[k].seconds.push_back(seconds / options.steps);
      results[k].system_allocations += allocator_statistics().system_allocations - before;
      gemm_seconds[k] += gemm_statistics().seconds / options.steps;
    }
  }

  Table table({"attention", "tokens/s", "steps/s", "ratio to global", "by FLOPs", "efficiency", "gemm share",
               "peak MiB", "parameters"});
  for (std::size_t k = 0; k < results.size(); ++k) {
    StepResult& result = results[k];
    std::vector<double> ratios;
    double total = 0;
    for (std::size_t round = 0; round < result.seconds.size(); ++round) {
      ratios.push_back(results[0].seconds[round] / result.seconds[round]);
      total += result.seconds[round];
    }
    result.gemm_share = gemm_seconds[k] / total;
    double step = median(result.seconds), ratio = median(ratios), by_flops = results[0].flops / result.flops;
    require(result.system_allocations == 0, "{} blocks came from the system in steady steps of '{}'; expected 0",
            result.system_allocations, result.attention);
    if (options.json) {
      Json row = {{"attention", result.attention},      {"model", options.model},
                  {"precision", options.precision},     {"batch_tokens", tokens},
                  {"tokens_per_second", tokens / step}, {"steps_per_second", 1 / step},
                  {"peak_bytes", result.peak_bytes},    {"gemm_share", result.gemm_share},
                  {"ratio_to_global", ratio},           {"flop_ratio", by_flops},
                  {"efficiency", ratio / by_flops},     {"parameters", result.parameters}};
      fmt::print("{}\n", row.dump());
    } else {
      table.row({result.attention, Cell::number(static_cast<double>(tokens) / step, 0), Cell::number(1 / step, 2),
                 Cell::number(ratio, 3), Cell::number(by_flops, 3), Cell::number(ratio / by_flops, 3),
                 Cell::number(result.gemm_share, 3),
                 Cell::number(static_cast<double>(result.peak_bytes) / 1048576.0, 1), result.parameters});
    }
  }
  if (!options.json) fmt::print("{}", table.text());
}

}  // namespace fovea
