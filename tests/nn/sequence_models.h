/// Small models of sequences of every type, and sentences for them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/recurrent_model.h"
#include "nn/transformer_model.h"

namespace fovea::test {

inline constexpr std::int64_t test_vocabulary = 9;

inline Tensor i32(const std::vector<std::int32_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

/// [lengths, T], tokens 1 … vocabulary − 1 up to each length, then 0.
inline Tensor test_tokens(const std::vector<std::int32_t>& lengths, std::int64_t T, int salt = 0) {
  std::vector<std::int32_t> tokens;
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (std::int32_t t = 0; t < T; ++t)
      tokens.push_back(
          t < lengths[b] ? 1 + (5 * static_cast<std::int32_t>(b) + 3 * t + t * t + salt) % (test_vocabulary - 1) : 0);
  return i32(tokens, {static_cast<std::int64_t>(lengths.size()), T});
}

inline TransformerOptions test_stack(Norm norm) {
  return {.layers = 2, .model_dim = 6, .heads = 2, .feed_forward_dim = 5, .norm = norm, .dropout = 0.1};
}

struct TestModel {
  std::string name;
  std::function<std::unique_ptr<SequenceModel>()> make;
};

/// One of each type, with these attentions.
inline std::vector<TestModel> test_models(const AttentionFactory& encoder, const AttentionFactory& decoder,
                                          const AttentionFactory& cross) {
  auto transformer = [=](Norm norm, Tied tied, Positions positions, bool translates) {
    return [=]() -> std::unique_ptr<SequenceModel> {
      TransformerModelOptions options{.source_vocabulary = translates ? test_vocabulary : 0,
                                      .vocabulary = test_vocabulary,
                                      .encoder = test_stack(norm),
                                      .decoder = test_stack(norm),
                                      .tied = tied,
                                      .positions = positions,
                                      .longest = 12,
                                      .embedding_norm = positions == Positions::learned,
                                      .output_bias = positions == Positions::learned};
      return translates
                 ? std::make_unique<TransformerModel>(options, encoder_layer(encoder), decoder_layer(decoder, cross))
                 : std::make_unique<TransformerModel>(options, encoder_layer(decoder));
    };
  };
  auto other_order = [=]() -> std::unique_ptr<SequenceModel> {
    TransformerModelOptions options{.source_vocabulary = test_vocabulary,
                                    .vocabulary = test_vocabulary,
                                    .encoder = test_stack(Norm::pre),
                                    .decoder = test_stack(Norm::pre)};
    const SubLayer feed_forward{}, own{SubLayer::Kind::attention, encoder}, masked{SubLayer::Kind::attention, decoder},
        over_source{SubLayer::Kind::cross, cross};
    return std::make_unique<TransformerModel>(options, SubLayers{feed_forward, own, own, feed_forward},
                                              SubLayers{masked, over_source, masked, feed_forward});
  };
  auto recurrent = [=](RecurrentModelOptions options) {
    return [=]() -> std::unique_ptr<SequenceModel> {
      RecurrentModelOptions own = options;
      own.source_vocabulary = own.vocabulary = test_vocabulary;
      own.embedding_dim = 5;
      own.dim = 6;
      own.heads = 2;
      own.readout_dim = 4;
      own.dropout = 0.1;
      return std::make_unique<RecurrentModel>(own, cross);
    };
  };
  return {
      {"transformer, pre-norm, one table", transformer(Norm::pre, Tied::all, Positions::sinusoidal, true)},
      {"transformer, post-norm, three tables", transformer(Norm::post, Tied::none, Positions::sinusoidal, true)},
      {"transformer, learned positions", transformer(Norm::post, Tied::decoder, Positions::learned, true)},
      {"transformer, another order of sub-layers", other_order},
      {"language model", transformer(Norm::pre, Tied::decoder, Positions::sinusoidal, false)},
      {"recurrent, the previous state asks", recurrent({})},
      {"recurrent, one direction, two layers", recurrent({.layers = 2, .bidirectional = false})},
      {"recurrent, the current state asks", recurrent({.layers = 2, .query = QueryState::current})},
      {"recurrent, no input feeding", recurrent({.query = QueryState::current, .input_feeding = false})},
  };
}

/// Three sources of 5, 3 and 4 tokens; for each, 5 tokens that the decoder reads.
inline SequenceBatch test_batch(const SequenceModel& model, std::int64_t padding = 0) {
  SequenceBatch batch;
  if (model.has_source()) {
    batch.source = test_tokens({5, 3, 4}, 5 + padding);
    batch.source_lengths = i32({5, 3, 4}, {3});
  }
  batch.input = test_tokens({5, 5, 5}, 5, 2);
  return batch;
}

/// The logits of the batch's input, one step after the other: [B, T, V].
inline Tensor step_by_step(SequenceModel& model, const SequenceBatch& batch) {
  DecoderState state = model.start(batch.source, batch.source_lengths);
  std::vector<Variable> logits;
  for (std::int64_t t = 0; t < batch.input.size(1); ++t)
    logits.push_back(unsqueeze(model.step(state, batch.input.select(1, t).contiguous()), 1));
  return concat(logits, 1).value();
}

}  // namespace fovea::test
