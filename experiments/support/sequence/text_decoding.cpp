#include "experiments/support/sequence/text_decoding.h"

#include "experiments/support/program/cli.h"

namespace fovea {

void BeamFlags::add_to(Cli& cli) {
  cli.option("--beam", beam.beam, "hypotheses that are kept of a sentence; 1: greedy").range(1, 1000);
  cli.option("--length-penalty", beam.length_penalty, "hypotheses are compared by log p / length^this").range(0, 10);
  cli.option("--min-length", beam.min_length, "tokens before a text may end").range(0, 1e6);
  cli.option("--longest", beam.max_length, "tokens after which a text must end").range(1, 1e6);
  cli.option("--longest-ratio", beam.max_per_source_token, "as many tokens for each of the source's; 0: any number")
      .range(0, 1000);
  cli.option("--no-repeat", beam.no_repeat, "no as many tokens in a row twice (trigram blocking: 3); 0: whatever")
      .range(0, 100);
  cli.option("--decode-tokens", batch_tokens, "source tokens that are decoded together, for each hypothesis")
      .range(1, 1e9)
      .unsaved();
}

std::vector<DecodedText> decode(SequenceModel& model, const EncodedPairs& pairs, const PairTokenizers& tokenizers,
                                const BeamFlags& flags, const std::function<void(std::int64_t)>& progress) {
  NoGrad off;
  model.train(false);
  std::vector<DecodedText> decoded(pairs.size());
  BatchOptions batches{.tokens = flags.batch_tokens, .sentences = 0, .length_multiple = 1, .accumulate = 1};
  for (std::int64_t length : pairs.source.lengths()) batches.tokens = std::max(batches.tokens, length);
  for (const PlannedBatch& plan : evaluation_batches(pairs.source.lengths(), batches)) {
    PairBatch batch = fill(plan, pairs, batches);
    DecodingBatch sources{Tensor::from(batch.source, {batch.rows, batch.source_length}),
                          Tensor::from(batch.source_lengths, {batch.rows})};
    std::vector<std::vector<Hypothesis>> found = beam_search(model, sources, flags.beam);
    for (std::size_t row = 0; row < found.size(); ++row) {
      DecodedText& to = decoded[static_cast<std::size_t>(batch.indices[row])];
      for (const Hypothesis& hypothesis : found[row]) to.texts.push_back(tokenizers.target->decode(hypothesis.tokens));
      to.hypotheses = std::move(found[row]);
    }
    if (progress) progress(batch.rows);
  }
  return decoded;
}

std::vector<std::string> best_texts(const std::vector<DecodedText>& decoded) {
  std::vector<std::string> texts;
  for (const DecodedText& one : decoded) texts.push_back(one.texts.front());
  return texts;
}

}  // namespace fovea
