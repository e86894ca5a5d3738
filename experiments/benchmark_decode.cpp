// Times beam search.
#include <memory>
#include <numeric>

#include <omp.h>

#include "experiments/benchmark.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/sequence/sequence_models.h"
#include "nn/decoding.h"
#include "tensor/cpu/parallel.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

namespace fovea {

namespace {

struct DecodeOptions {
  std::int64_t vocabulary = 8000, sentences = 128, batch = 32, length = 20;
  int beam = 5, rounds = 5, threads = 0;
  Precision precision = Precision::f32;
  std::string device = "cpu";
  bool json = false;
};

/// Returns batches of random sentences of --length / 2 to --length tokens, sorted by length.
std::vector<DecodingBatch> random_batches(const DecodeOptions& options) {
  RandomTokens random(options.vocabulary);
  std::vector<std::vector<std::int32_t>> sentences;
  for (std::int64_t s = 0; s < options.sentences; ++s)
    sentences.push_back(random.sentence(options.length / 2, options.length));
  std::sort(sentences.begin(), sentences.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<DecodingBatch> batches;
  for (std::int64_t first = 0; first < options.sentences; first += options.batch) {
    auto count = static_cast<std::size_t>(std::min(options.batch, options.sentences - first));
    PaddedTokens padded = padded_tokens(std::span(sentences).subspan(static_cast<std::size_t>(first), count));
    batches.push_back({padded.tokens, padded.lengths});
  }
  return batches;
}

void decoding_flags(Cli& cli, SequenceModelOptions& model, DecodeOptions& options) {
  cli.describe(
      "Times beam search with an untrained model. Every hypothesis is as long as the longest source. "
      "tests/reference/decode_torch.py does the same in PyTorch.");
  cli.add(model);
  cli.group("Decoding");
  cli.option("--vocabulary", options.vocabulary, "size of the vocabulary, of source and target each").range(8, 1e7);
  cli.option("--sentences", options.sentences, "number of sentences").range(1, 1e7);
  cli.option("--batch", options.batch, "sentences that are decoded together").range(1, 1e5);
  cli.option("--length", options.length, "tokens of the longest source, and of each hypothesis").range(2, 1e5);
  cli.option("--beam", options.beam, "hypotheses kept per sentence").range(1, 1000);
  precision_flag(cli, options.precision);
  device_flag(cli, options.device);
  cli.option("--rounds", options.rounds, "rounds; each round decodes all sentences once").range(1, 1000);
  cli.option("--threads", options.threads, "number of threads; 0: one per core").range(0, 1024);
  cli.option("--json", options.json, "print a JSON object instead of text");
}

struct DecodingTimes {
  double sentences_per_second, tokens_per_second, seconds_per_step;
  double gemm_share;  ///< of products on the CPU; a GPU's are not timed one by one
  std::uint64_t system_allocations;
  std::size_t peak_bytes;
};

/// Decodes all sentences once for each round, after a round that warms up caches and the allocator.
DecodingTimes time_decoding(SequenceModel& model, const DecodeOptions& options, Device device) {
  const std::vector<DecodingBatch> batches = random_batches(options);
  BeamOptions beam;
  beam.beam = options.beam;
  beam.min_length = beam.max_length = options.length;
  const auto decode_all = [&] {
    for (const DecodingBatch& batch : batches) beam_search(model, batch, beam);
  };
  decode_all();
  reset_gemm_statistics();
  reset_peak(device);
  const std::uint64_t blocks = allocator_statistics(device).system_allocations;
  std::vector<double> seconds;
  for (int round = 0; round < options.rounds; ++round)
    seconds.push_back(seconds_of(decode_all));  // the hypotheses are on the host: the device is done
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0), per_round = median(seconds);
  const auto sentences = static_cast<double>(options.sentences), length = static_cast<double>(options.length + 1);
  return {.sentences_per_second = sentences / per_round,
          .tokens_per_second = sentences * length / per_round,
          .seconds_per_step = per_round / (static_cast<double>(batches.size()) * length),
          .gemm_share = gemm_statistics().seconds / total,
          .system_allocations = allocator_statistics(device).system_allocations - blocks,
          .peak_bytes = allocator_statistics(device).peak_bytes};
}

void print(const DecodingTimes& times, const DecodeOptions& options, Device device, std::int64_t parameters) {
  if (!options.json) {
    fmt::print("{:.1f} sentences/s, {:.0f} tokens/s; a step takes {:.2f} ms{}\n", times.sentences_per_second,
               times.tokens_per_second, 1e3 * times.seconds_per_step,
               device == Device::cpu ? fmt::format(", {:.0f} % in matrix products", 100 * times.gemm_share) : "");
    return;
  }
  Json row = {{"sentences_per_second", times.sentences_per_second},
              {"tokens_per_second", times.tokens_per_second},
              {"milliseconds_per_step", 1e3 * times.seconds_per_step},
              {"system_allocations", times.system_allocations},
              {"peak_bytes", times.peak_bytes},
              {"beam", options.beam},
              {"batch", options.batch},
              {"parameters", parameters}};
  if (device == Device::cpu) row["gemm_share"] = times.gemm_share;
  fmt::print("{}\n", text_of(row));
}

}  // namespace

void benchmark_decode(Cli& cli) {
  DecodeOptions options;
  SequenceModelOptions model_options;
  decoding_flags(cli, model_options, options);
  cli.parse();
  if (options.threads > 0) omp_set_num_threads(options.threads);
  set_matmul_precision(options.precision);
  set_flush_denormals(true);

  const std::unique_ptr<SequenceModel> model = model_options.make(options.vocabulary, options.vocabulary);
  const Device device = started_device(cli, options.device);
  model->initialise(1);
  model->to(device);
  print(time_decoding(*model, options, device), options, device, model->parameter_count());
}

}  // namespace fovea
