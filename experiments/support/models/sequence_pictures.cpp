#include "experiments/support/models/sequence_pictures.h"

#include <algorithm>

#include "experiments/support/program/terminal.h"
#include "experiments/support/text/number.h"

namespace fovea {

namespace {

std::string text_of_example(const TokenStore& store, std::size_t k, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.lengths()[k]));
  store.read(k, tokens);
  return tokenizer.decode(tokens);
}

/// The first `length` tokens as words: long texts have padding even alone.
std::vector<std::string> words_of(const std::vector<std::int32_t>& tokens, std::int32_t length,
                                  const Tokenizer& tokenizer) {
  std::vector<std::string> words;
  for (std::int32_t k = 0; k < length; ++k) words.push_back(tokenizer.token(tokens[static_cast<std::size_t>(k)]));
  return words;
}

}  // namespace

ShownPair shown_pair(const EncodedPairs& pairs, const PairTokenizers& tokenizers, std::size_t k, bool has_source) {
  BatchOptions alone;
  alone.length_multiple = 1;
  PairBatch pair = fill({pairs.lengths[k], {static_cast<std::int64_t>(k)}}, pairs, alone);
  ShownPair shown;
  shown.text = text_of_example(pairs.target, k, *tokenizers.target);
  shown.batch = pair.read(has_source);
  if (has_source) {
    shown.source = words_of(pair.source, pair.source_lengths[0], *tokenizers.source);
    shown.text = text_of_example(pairs.source, k, *tokenizers.source) + " → " + shown.text;
  }
  shown.input = words_of(pair.target_in, pair.target_lengths[0], *tokenizers.target);
  shown.output = words_of(pair.target_out, pair.target_lengths[0], *tokenizers.target);
  return shown;
}

namespace {

/// ", layer 2" for the trace "1.cross"; "" for a model's only attention.
std::string layer_of(const AttentionTrace& trace) {
  const std::optional<int> layer = leading_number<int>(trace.name);
  return layer ? fmt::format(", layer {}", *layer + 1) : "";
}

/// Pictures of one attention of each kind that the model has.
std::vector<Figure> pictures_of(SequenceModel& model, const ShownPair& pair) {
  NoGrad off;
  SequenceTrace trace;
  model.logits(pair.batch, &trace);
  std::vector<const AttentionTrace*> encoder, decoder, over_source;
  for (const AttentionTrace& each : trace.encoder) encoder.push_back(&each);
  for (const AttentionTrace& each : trace.decoder) {
    // "2.cross", or the one of a recurrent model
    bool is_over_source = each.name == "attention" || each.name.find(".cross") != std::string::npos;
    (is_over_source ? over_source : decoder).push_back(&each);
  }
  std::vector<Figure> pictures;
  auto add = [&](const auto& traces, std::size_t layer, const char* name, const auto& queries, const auto& keys) {
    for (const AttentionTrace* one : attentions_to_show(traces, layer))
      for (Figure& figure : pictures_of(*one, name + layer_of(*one), queries, keys))
        pictures.push_back(std::move(figure));
  };
  add(over_source, over_source.size() - 1, "over the source", pair.output, pair.source);  // nearest to the output
  add(encoder, 0, "encoder", pair.source, pair.source);
  add(decoder, 0, "decoder", pair.input, pair.input);
  return pictures;
}

}  // namespace

std::vector<ShownSentence> attention_pictures(SequenceModel& model, const PairSet& set, const TestResult& tested,
                                              const PairTokenizers& tokenizers) {
  constexpr std::size_t sentences = 2, longest = 300;
  model.train(false);
  std::vector<ShownSentence> shown;
  for (std::size_t k : examples_to_show(tested.examples, set.pairs.lengths, sentences)) {
    const ShownPair pair = shown_pair(set.pairs, tokenizers, k, model.has_source());
    shown.push_back({shortened(pair.text, longest), pictures_of(model, pair)});
  }
  return shown;
}

}  // namespace fovea
