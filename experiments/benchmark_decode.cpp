// Times beam search.
#include <memory>
#include <numeric>

#include "experiments/benchmark.h"
#include "experiments/support/attend/engine_flags.h"
#include "experiments/support/models/sequence_models.h"
#include "nn/decoding.h"
#include "tensor/cpu/parallel.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

namespace fovea {

namespace {

struct DecodeOptions {
  std::int64_t vocabulary = 8000, sentences = 128, batch = 32, length = 20;
  int beam = 5;
  Precision precision = Precision::f32;
  BenchmarkFlags run;
};

/// Returns batches of random sentences of --length / 2 to --length tokens, sorted by length.
std::vector<DecodingBatch> random_batches(const DecodeOptions& options) {
  RandomTokens random(options.vocabulary);
  std::vector<std::vector<std::int32_t>> sentences;
  for (std::int64_t s = 0; s < options.sentences; ++s)
    sentences.push_back(random.sentence(options.length / 2, options.length));
  std::ranges::sort(sentences, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<DecodingBatch> batches;
  for (std::int64_t first = 0; first < options.sentences; first += options.batch) {
    auto count = std::size_t(std::min(options.batch, options.sentences - first));
    PaddedTokens padded = padded_tokens(std::span(sentences).subspan(std::size_t(first), count));
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
  options.run.add_to(cli, "decodes all sentences once");
}

/// Decodes all sentences once for each round, after a round that warms up caches and the allocator.
Json time_decoding(SequenceModel& model, const DecodeOptions& options, Device device) {
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
  // the hypotheses are on the host: the device is done
  const Turns turns(1, options.run.rounds, [&](std::size_t) { return seconds_of(decode_all); });
  const double seconds = turns.middle(0);
  const auto sentences = double(options.sentences), length = double(options.length + 1);
  Json row{{"sentences_per_second", sentences / seconds},
           {"tokens_per_second", sentences * length / seconds},
           {"milliseconds_per_step", 1e3 * seconds / (double(batches.size()) * length)},
           {"system_allocations", allocator_statistics(device).system_allocations - blocks},
           {"peak_bytes", allocator_statistics(device).peak_bytes},
           {"beam", options.beam},
           {"batch", options.batch},
           {"parameters", model.parameter_count()}};
  if (device == Device::cpu)  // a GPU's products are not timed one by one
    row["gemm_share"] =
        gemm_statistics().seconds / std::accumulate(turns.seconds[0].begin(), turns.seconds[0].end(), 0.0);
  return row;
}

}  // namespace

void benchmark_decode(Cli& cli) {
  DecodeOptions options;
  SequenceModelOptions model_options;
  decoding_flags(cli, model_options, options);
  cli.parse();
  const Device device = options.run.start(cli);
  set_matmul_precision(options.precision);
  set_flush_denormals(true);
  const std::unique_ptr<SequenceModel> model = model_options.make(options.vocabulary, options.vocabulary);
  model->initialise(1);
  model->to(device);
  Results results(options.run.json, {{"sentences/s", "sentences_per_second", 1},
                                     {"tokens/s", "tokens_per_second", 0},
                                     {"ms a step", "milliseconds_per_step", 2},
                                     {"% in products", "gemm_share", 0, 100},
                                     {"peak MiB", "peak_bytes", 1, per_mebibyte},
                                     {"parameters", "parameters"}});
  results.add(time_decoding(*model, options, device));
  results.print();
}

}  // namespace fovea
