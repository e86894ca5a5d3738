// Every type of model learns thirty-two sentences by heart, and beam search reproduces them.
#include <algorithm>
#include <set>

#include <boost/test/unit_test.hpp>

#include "attention/registry.h"
#include "nn/decoding.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "nn/recurrent_model.h"
#include "nn/transformer_model.h"
#include "tensor/random.h"

using namespace fovea;

namespace {

using Sentence = std::vector<std::int32_t>;

constexpr std::int64_t vocabulary = 24;

/// Sentences of `shortest` to `shortest` + 4 random words, no two with the same first two.
std::vector<Sentence> random_sentences(std::size_t count, std::size_t shortest, std::uint64_t seed) {
  Generator generator(seed);
  Tensor random = Tensor::empty({1000}, DType::f64);
  fill_uniform(random, generator, 0, 1);
  const double* next = random.data<double>();
  std::vector<Sentence> sentences;
  std::set<std::pair<std::int32_t, std::int32_t>> begun;
  while (sentences.size() < count) {
    Sentence sentence(shortest + static_cast<std::size_t>(5 * *next++));
    for (std::int32_t& word : sentence) word = 4 + static_cast<std::int32_t>((vocabulary - 4) * *next++);
    if (begun.emplace(sentence[0], sentence[1]).second) sentences.push_back(sentence);
  }
  return sentences;
}

TransformerModelOptions transformer(std::int64_t source_vocabulary, Norm norm) {
  TransformerOptions stack{.layers = 1, .model_dim = 48, .heads = 4, .feed_forward_dim = 96, .norm = norm};
  stack.dropout = 0;
  return {.source_vocabulary = source_vocabulary, .vocabulary = vocabulary, .encoder = stack, .decoder = stack};
}

RecurrentModelOptions recurrent(QueryState query) {
  return {.source_vocabulary = vocabulary,
          .vocabulary = vocabulary,
          .embedding_dim = 32,
          .dim = 48,
          .query = query,
          .readout_dim = 0};
}

/// The share of the targets that beam search reproduces after this many updates on all of them.
double learned(SequenceModel& model, int updates, double rate) {
  model.initialise(5);
  // A language model gets the first two words of a sentence as its prefix.
  const std::vector<Sentence> targets = random_sentences(32, 2, 1),
                              sources = model.has_source() ? random_sentences(32, 3, 2) : std::vector<Sentence>();
  const TeacherForcingBatch sentences = teacher_forcing_batch(sources, targets);
  AdamW optimizer(model.parameters(), {});
  for (int update = 0; update < updates; ++update) {
    Variable loss = cross_entropy_loss(model.logits(sentences.batch), sentences.targets, {.ignored = 0});
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(rate * std::min(1.0, (update + 1) / 20.0), clip_scale(gradient_norm(optimizer.parameters()), 1));
  }
  DecodingBatch batch;
  if (model.has_source()) {
    PaddedTokens padded = padded_tokens(sources);
    batch = {padded.tokens, padded.lengths};
  } else {
    for (const Sentence& target : targets) batch.prefixes.push_back({target[0], target[1]});
  }
  BeamOptions options;
  options.beam = 3;
  options.max_length = 12;
  auto found = beam_search(model, batch, options);
  int right = 0;
  for (std::size_t s = 0; s < targets.size(); ++s) right += found[s][0].tokens == targets[s] ? 1 : 0;
  return right / 32.0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(overfitting)

BOOST_AUTO_TEST_CASE(a_transformer_learns_thirty_two_sentences) {
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerModel model(transformer(vocabulary, norm), encoder_layer(attention_factory("gaussian")),
                           decoder_layer(attention_factory("window"), attention_factory("global")));
    BOOST_TEST(learned(model, 150, 5e-3) == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(a_language_model_learns_thirty_two_sentences) {
  TransformerModel model(transformer(0, Norm::pre), encoder_layer(attention_factory("relative")));
  BOOST_TEST(learned(model, 150, 5e-3) == 1.0);
}

BOOST_AUTO_TEST_CASE(recurrent_models_learn_thirty_two_sentences) {
  for (const char* attention : {"classic(additive(hidden=32))", "classic(additive(hidden=32)+flexible)"}) {
    RecurrentModel model(recurrent(QueryState::previous), attention_factory(attention));
    BOOST_TEST(learned(model, 150, 1e-2) == 1.0, attention);
  }
  RecurrentModel model(recurrent(QueryState::current), attention_factory("classic(general)"));
  BOOST_TEST(learned(model, 150, 1e-2) == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()
