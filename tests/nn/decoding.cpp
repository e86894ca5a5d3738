// Beam search, forced decoding and sampling, with every type of model.
#include "nn/decoding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/formula/arithmetic.h"
#include "tests/nn/log_probabilities.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/plain_attention.h"
#include "tests/nn/sequence_models.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

using Sentence = std::vector<std::int32_t>;
using Sentences = std::vector<Sentence>;

/// body(model) of every type, in f64 and with random parameters.
void for_every_model(const std::function<void(SequenceModel&)>& body) {
  for (const TestModel& type : test_models(plain_attention, plain_attention, plain_attention))
    BOOST_TEST_CONTEXT(type.name) {
      std::unique_ptr<SequenceModel> model = type.make();
      randomise(*model);
      body(*model);
      BOOST_TEST(model->training());  // as it was
    }
}

/// Says the same after a token whatever was before: the logits of a few next ones, others have −1000. They are log p
/// too, exactly, for token 0, which is never said, has 0.
class Table : public SequenceModel {
 public:
  using Next = std::map<std::int32_t, double>;
  explicit Table(std::map<std::int32_t, Next> next) : next_(std::move(next)) {}

  std::int64_t vocabulary() const override { return 12; }
  bool has_source() const override { return false; }
  DecoderState start(const Tensor&, const Tensor&, std::vector<AttentionTrace>*) override { return {}; }
  Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>*) override {
    ++state.position;
    Tensor logits = Tensor::full({tokens.size(0), vocabulary()}, -1000, DType::f64);
    auto* row = logits.mutable_data<double>();
    for (std::int64_t last : tokens.to_vector<std::int64_t>()) {
      row[0] = 0;
      for (auto [token, logit] : next_[static_cast<std::int32_t>(last)]) row[token] = logit;
      row += vocabulary();
    }
    return here(logits);
  }

 private:
  Output output() const override { return {}; }
  Variable states(const SequenceBatch&, SequenceTrace*) override { return {}; }

  std::map<std::int32_t, Next> next_;
};

const Sentences sources{{1, 4, 5, 8, 3}, {7, 6, 3}, {5, 1, 1, 4}, {8}};

/// Of these sources; of a language model, with their first words as prefixes.
DecodingBatch batch_of(const SequenceModel& model, const Sentences& sentences) {
  DecodingBatch batch;
  if (model.has_source()) {
    PaddedTokens padded = padded_tokens(sentences);
    batch.source = padded.tokens;
    batch.lengths = padded.lengths;
  } else {
    for (const Sentence& sentence : sentences) batch.prefixes.push_back({sentence[0]});
  }
  return batch;
}

template <class Options>
Options short_options() {
  Options options;
  options.max_length = 6;
  return options;
}

BeamOptions beam_options(int beam, int best = 1) {
  auto options = short_options<BeamOptions>();
  options.beam = beam;
  options.best = best;
  return options;
}

/// Σ log p of the tokens and </s> after this source (or nothing), by teacher forcing.
double log_probability(SequenceModel& model, const Sentence& source, const Sentence& tokens) {
  Sentences from{source}, to{tokens};
  if (!model.has_source()) from.clear();
  return log_probabilities(model, teacher_forcing_batch(from, to))[0];
}

bool same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hypothesis& x, const Hypothesis& y) {
    return x.tokens == y.tokens && std::abs(x.score - y.score) < 1e-10;
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(decoding)

BOOST_AUTO_TEST_CASE(a_beam_of_one_is_greedy) {
  for_every_model([](SequenceModel& model) {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      Hypothesis found = beam_search(model, batch_of(model, {sources[s]}), beam_options(1))[0][0];
      Evaluating evaluating(model);
      DecodingBatch batch = batch_of(model, {sources[s]});
      DecoderState state = model.start(batch.source, batch.lengths);
      Sentence greedy;
      std::int32_t token = 2;
      while (true) {
        std::vector<double> logits = model.step(state, i32({token}, {1})).value().to_vector<double>();
        logits[0] = logits[2] = -1e300;
        token = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        if (greedy.size() < (batch.prefixes.empty() ? 0 : 1)) token = batch.prefixes[0][greedy.size()];
        if (greedy.size() == 6 || token == 3) break;
        greedy.push_back(token);
      }
      BOOST_TEST(found.tokens == greedy, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(scores_are_those_of_teacher_forcing) {
  for_every_model([](SequenceModel& model) {
    BeamOptions options = beam_options(4, 4);
    options.length_penalty = 0.7;
    auto found = beam_search(model, batch_of(model, sources), options);
    BOOST_TEST_REQUIRE(found.size() == sources.size());
    for (std::size_t s = 0; s < found.size(); ++s) {
      std::set<Sentence> different;
      BOOST_TEST(found[s].size() == 4u);
      for (std::size_t k = 0; k < found[s].size(); ++k) {
        const Hypothesis& one = found[s][k];
        different.insert(one.tokens);
        double expected = log_probability(model, sources[s], one.tokens);
        BOOST_TEST(std::abs(one.log_probability - expected) < 1e-10);
        BOOST_TEST(std::abs(one.score - expected / std::pow(one.tokens.size() + 1, 0.7)) < 1e-10);
        BOOST_TEST((k == 0 || one.score <= found[s][k - 1].score));
      }
      BOOST_TEST(different.size() == found[s].size());
    }
  });
}

BOOST_AUTO_TEST_CASE(company_and_order_change_nothing) {
  for_every_model([](SequenceModel& model) {
    for (bool shrinking : {false, true}) {
      BeamOptions options = beam_options(3, 3);
      options.shrinking = shrinking;
      options.max_per_source_token = 2;
      auto together = beam_search(model, batch_of(model, sources), options);
      Sentences reversed(sources.rbegin(), sources.rend());
      auto backwards = beam_search(model, batch_of(model, reversed), options);
      for (std::size_t s = 0; s < sources.size(); ++s) {
        auto alone = beam_search(model, batch_of(model, {sources[s]}), options)[0];
        BOOST_TEST(same(together[s], alone));
        BOOST_TEST(same(backwards[sources.size() - 1 - s], alone));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_wide_beam_finds_the_best_of_all) {
  for_every_model([](SequenceModel& model) {
    BeamOptions options = beam_options(16, 15);
    options.never = {0, 2, 5, 6, 7, 8, 1};
    options.never.pop_back();  // tokens 1, 4 and </s>
    options.max_length = 3;
    options.length_penalty = 0.6;
    DecodingBatch batch = batch_of(model, {sources[0]});
    batch.prefixes.clear();
    if (!model.has_source()) batch.prefixes = {{}};
    auto found = beam_search(model, batch, options)[0];
    std::vector<std::pair<double, Sentence>> all;
    for (int length = 0; length <= 3; ++length)
      for (int bits = 0; bits < 1 << length; ++bits) {
        Sentence tokens;
        for (int t = 0; t < length; ++t) tokens.push_back(bits >> t & 1 ? 4 : 1);
        all.emplace_back(-log_probability(model, sources[0], tokens) / std::pow(length + 1, 0.6), tokens);
      }
    std::sort(all.begin(), all.end());
    BOOST_TEST_REQUIRE(found.size() == all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      BOOST_TEST(found[k].tokens == all[k].second, boost::test_tools::per_element());
      BOOST_TEST(std::abs(found[k].score + all[k].first) < 1e-10);
    }
  });
}

BOOST_AUTO_TEST_CASE(lengths_and_repetitions_are_kept_to) {
  for_every_model([](SequenceModel& model) {
    BeamOptions options = beam_options(3, 3);
    options.min_length = 5;
    options.max_length = 9;
    options.no_repeat = 2;
    options.never.push_back(1);
    for (const auto& hypotheses : beam_search(model, batch_of(model, {sources[0], sources[1]}), options))
      for (const Hypothesis& one : hypotheses) {
        BOOST_TEST((5 <= one.tokens.size() && one.tokens.size() <= 9));
        std::set<std::pair<std::int32_t, std::int32_t>> pairs;
        for (std::size_t t = 1; t < one.tokens.size(); ++t)
          BOOST_TEST(pairs.emplace(one.tokens[t - 1], one.tokens[t]).second);
        for (std::size_t t = model.has_source() ? 0 : 1; t < one.tokens.size(); ++t)
          BOOST_TEST((one.tokens[t] != 0 && one.tokens[t] != 1 && one.tokens[t] != 2 && one.tokens[t] != 3));
      }
  });
}

BOOST_AUTO_TEST_CASE(a_beam_and_a_ratio_of_lengths_may_be_huge) {
  auto model = test_models(plain_attention, plain_attention, plain_attention)[0].make();
  randomise(*model);
  const DecodingBatch batch = batch_of(*model, sources);
  BeamOptions options = beam_options(1);
  options.min_length = options.max_length = 12;
  options.max_per_source_token = 1e30;
  for (const auto& hypotheses : beam_search(*model, batch, options)) BOOST_TEST(hypotheses[0].tokens.size() == 12);
  options = beam_options(1 << 30);
  options.max_length = 2;
  BeamOptions wide = beam_options(100);
  wide.max_length = 2;
  const auto found = beam_search(*model, batch, options), expected = beam_search(*model, batch, wide);
  for (std::size_t s = 0; s < found.size(); ++s) BOOST_TEST(same(found[s], expected[s]));
}

BOOST_AUTO_TEST_CASE(a_reference_can_be_forced_wholly_or_in_part) {
  for_every_model([](SequenceModel& model) {
    const Sentences references{{4, 4, 1, 7}, {}, {8, 5}, {6, 1, 5}};
    DecodingBatch batch = batch_of(model, sources);
    batch.prefixes = references;
    for (Sentence& prefix : batch.prefixes) prefix.push_back(3);
    batch.prefixes[3] = {6, 1};
    auto found = beam_search(model, batch, beam_options(2));
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const Hypothesis& one = found[s][0];
      if (s < 3) BOOST_TEST(one.tokens == references[s], boost::test_tools::per_element());
      BOOST_TEST((s < 3 || (one.tokens.size() >= 2 && one.tokens[0] == 6 && one.tokens[1] == 1)));
      BOOST_TEST(std::abs(one.log_probability - log_probability(model, sources[s], one.tokens)) < 1e-10);
    }
  });
}

BOOST_AUTO_TEST_CASE(forced_decoding_goes_through_the_texts_alone) {
  for_every_model([](SequenceModel& model) {
    const Sentences texts{{4, 4, 1, 7}, {}, {8, 5}, {6, 1, 5, 5, 5, 5, 2}};
    DecodingBatch batch = batch_of(model, sources);
    batch.prefixes = texts;
    DecodingOptions options = short_options<DecodingOptions>();  // six tokens at most, and no repetition: of no account
    options.no_repeat = 1;
    options.alignments = true;
    std::vector<std::vector<std::size_t>> steps;
    options.observe = [&](const std::vector<AttentionTrace>& traces, std::span<const std::size_t> sentences) {
      steps.emplace_back(sentences.begin(), sentences.end());
      for (const AttentionTrace& trace : traces) {
        BOOST_TEST(trace.weights.size(0) == static_cast<std::int64_t>(sentences.size()));
        BOOST_TEST((trace.place == Place::cross || trace.place == Place::decoder));
      }
      BOOST_TEST(std::any_of(traces.begin(), traces.end(), looks_at_source) == model.has_source());
    };
    std::vector<Hypothesis> forced = force(model, batch, options);
    for (std::size_t s = 0; s < texts.size(); ++s) {
      BOOST_TEST(forced[s].tokens == texts[s], boost::test_tools::per_element());
      BOOST_TEST(forced[s].alignment.size() == texts[s].size() + 1);
      BOOST_TEST(std::abs(forced[s].log_probability - log_probability(model, sources[s], texts[s])) < 1e-10);
    }
    BOOST_TEST(steps.size() == 8u);
    BOOST_TEST((steps[1] == std::vector<std::size_t>{0, 2, 3} && steps[3] == std::vector<std::size_t>{0, 3}));
    batch.prefixes.pop_back();
    if (model.has_source()) BOOST_CHECK_THROW(force(model, batch), Error);
  });
}

BOOST_AUTO_TEST_CASE(alignments_have_a_row_for_each_token_and_the_end) {
  for_every_model([](SequenceModel& model) {
    if (!model.has_source()) return;
    BeamOptions options = beam_options(3, 2);
    options.alignments = true;
    auto found = beam_search(model, batch_of(model, sources), options);
    for (std::size_t s = 0; s < sources.size(); ++s)
      for (const Hypothesis& one : found[s]) {
        BOOST_TEST_REQUIRE(one.alignment.size() == one.tokens.size() + 1);
        SequenceTrace trace;
        Evaluating evaluating(model);
        model.logits(teacher_forcing_batch(Sentences{sources[s]}, Sentences{one.tokens}).batch, &trace);
        auto over_source = [](const AttentionTrace& one) { return one.name == "attention" || one.name == "1.cross"; };
        auto last = std::find_if(trace.decoder.begin(), trace.decoder.end(), over_source);
        BOOST_TEST_REQUIRE((last != trace.decoder.end()));
        Tensor weights = mean(last->weights, {1}).value();  // [1, T, J]
        for (std::size_t t = 0; t < one.alignment.size(); ++t)
          for (std::size_t j = 0; j < sources[s].size(); ++j)
            BOOST_TEST(std::abs(weights.select(0, 0)
                                    .select(0, static_cast<std::int64_t>(t))
                                    .select(0, static_cast<std::int64_t>(j))
                                    .item() -
                                one.alignment[t][j]) < 1e-6);
      }
  });
}

BOOST_AUTO_TEST_CASE(the_most_probable_alone_are_drawn_where_few_may_be) {
  for_every_model([](SequenceModel& model) {
    for (NamedParameter& p : model.parameters())  // logits are as large as they like: only their differences count
      if (p.name.ends_with("output.bias")) p.variable.value().copy_from(map(Affine{1, -10}, p.variable.value()));
    DecodingBatch batch = batch_of(model, sources);
    auto greedy = beam_search(model, batch, beam_options(1));
    for (int kind = 0; kind < 5; ++kind) {
      auto options = short_options<SamplingOptions>();
      if (kind == 0) options.top_k = 1;
      if (kind == 1) options.top_p = 1e-9;
      if (kind >= 2) options.temperature = 1e-4;  // a logit is divided by it before it is an exponent
      if (kind == 3) options.top_k = 5;
      if (kind == 4) options.top_p = 0.9;
      auto drawn = sample(model, batch, options);
      for (std::size_t s = 0; s < sources.size(); ++s) {
        BOOST_TEST(drawn[s].tokens == greedy[s][0].tokens, boost::test_tools::per_element());
        BOOST_TEST(std::abs(drawn[s].log_probability - greedy[s][0].log_probability) < 1e-10);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(tokens_are_drawn_as_often_as_they_are_probable) {
  auto model = test_models(plain_attention, plain_attention, plain_attention)[4].make();
  BOOST_TEST_REQUIRE(!model->has_source());
  randomise(*model);
  for (NamedParameter& p : model->parameters())  // flatter
    if (p.name.starts_with("target_embedding")) p.variable.value().copy_from(map(Affine{0.3, 0}, p.variable.value()));
  constexpr std::size_t draws = 4000;
  DecodingBatch batch;
  batch.prefixes.resize(draws);
  SamplingOptions options;
  options.max_length = 1;
  options.never = {};
  std::map<std::int32_t, double> count;
  for (const Hypothesis& one : sample(*model, batch, options)) count[one.tokens.empty() ? 3 : one.tokens[0]] += 1;
  DecoderState state = model->start({}, {});
  Evaluating evaluating(*model);
  std::vector<double> p = softmax(model->step(state, i32({2}, {1}))).value().to_vector<double>();
  for (std::size_t v = 0; v < p.size(); ++v) {
    double expected = p[v] * draws, deviation = std::sqrt(expected * (1 - p[v]));
    BOOST_TEST(std::abs(count[static_cast<std::int32_t>(v)] - expected) < 4 * deviation + 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(where_nothing_can_end_there_is_an_empty_hypothesis) {
  auto model = test_models(plain_attention, plain_attention, plain_attention)[0].make();
  randomise(*model);
  BeamOptions options = beam_options(2);
  options.min_length = 5;
  options.never = {0, 1, 2, 4, 5, 6, 7, 8};
  auto check = [&](const std::string& why) {
    for (const auto& found : beam_search(*model, batch_of(*model, sources), options)) {
      BOOST_TEST_REQUIRE(found.size() == 1u, why);
      BOOST_TEST((found[0].tokens.empty() && std::isinf(found[0].score)), why);
    }
  };
  check("every token is ruled out");
  options = beam_options(2);
  for (NamedParameter& p : model->parameters()) p.variable.value().fill(std::nan(""));
  check("the model says nothing");
}

BOOST_AUTO_TEST_CASE(equal_hypotheses_are_in_an_order_that_no_other_sentence_changes) {
  // After 4 come 6 9 and 7 8, equally probable in the end; 5 is done when they change places.
  Table model({{4, {{6, -40}, {7, -41}}},
               {6, {{9, -45}}},
               {7, {{8, -42}}},
               {8, {{3, -47}}},
               {9, {{3, -45}}},
               {5, {{10, -40}, {11, -41}}},
               {10, {{3, -40}}},
               {11, {{3, -40}}}});
  auto found = [&](const Sentences& prefixes) {
    DecodingBatch batch;
    batch.prefixes = prefixes;
    return beam_search(model, batch, beam_options(2, 2))[0];
  };
  const std::vector<Hypothesis> alone = found({{4}}), beside = found({{4}, {5}});
  BOOST_TEST(alone[0].score == alone[1].score);
  for (std::size_t k = 0; k < 2; ++k) BOOST_TEST(alone[k].tokens == beside[k].tokens, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused) {
  auto model = test_models(plain_attention, plain_attention, plain_attention)[0].make();
  randomise(*model);
  DecodingBatch batch = batch_of(*model, sources);
  BOOST_TEST(error_of([&] { beam_search(*model, batch, beam_options(0)); }) ==
             "beam search: the beam is 0; it must be at least 1");
  BOOST_TEST(error_of([&] { beam_search(*model, {}, beam_options(1)); }) ==
             "decoding: there is no source; the model translates one");
  batch.prefixes = {{1}};
  BOOST_TEST(error_of([&] { beam_search(*model, batch, beam_options(1)); }) ==
             "decoding: there are 1 prefixes for 4 sentences; expected one each, or none");
  batch.prefixes = {{1}, {3, 4}, {4, 3}, {}};
  const std::string early_end =
      "decoding: the prefix of sentence 1 has </s> (3) as token 1 of 2; only its last token can be </s>";
  BOOST_TEST(error_of([&] { beam_search(*model, batch, beam_options(1)); }) == early_end);
  BOOST_TEST(error_of([&] { sample(*model, batch, {}); }) == early_end);
  batch.prefixes[1] = {4};
  BOOST_TEST(error_of([&] { force(*model, batch); }) ==
             "forced decoding: sentence 2 contains </s> (3), which is added to it; leave it out");
  BeamOptions options = beam_options(1);
  options.length_penalty = NAN;
  BOOST_TEST(error_of([&] { beam_search(*model, batch, options); }) ==
             "beam search: the length penalty is nan; it must be a finite number");
  options = beam_options(1);
  options.max_per_source_token = NAN;
  BOOST_TEST(error_of([&] { beam_search(*model, batch, options); }) ==
             "decoding: max_per_source_token is nan; it must be a positive number, or 0 for no such limit");
  options = beam_options(1);
  for (std::int32_t outside : {-1, 9}) {
    options.end = outside;
    BOOST_TEST(error_of([&] { beam_search(*model, batch, options); }) ==
               fmt::format("decoding: </s> is token {}; it must be in 0 to 8", outside));
  }
  SamplingOptions hot, narrow;
  hot.temperature = narrow.top_p = NAN;
  BOOST_TEST(error_of([&] { sample(*model, batch, hot); }) ==
             "sampling: the temperature is nan; it must be more than 0");
  BOOST_TEST(error_of([&] { sample(*model, batch, narrow); }) ==
             "sampling: top_p is nan and top_k 0; top_p must be more than 0, top_k 0 or more");
}

BOOST_AUTO_TEST_CASE(a_hook_stops_decoding_at_any_step_and_leaves_the_model_as_it_was) {
  struct Stop {};
  for_every_model([](SequenceModel& model) {
    const DecodingBatch batch = batch_of(model, sources);
    DecodingBatch forced_batch = batch;
    forced_batch.prefixes = {{1, 4}, {7}, {5, 1, 4}, {}};
    auto search = [&](BeamOptions options) { return beam_search(model, batch, options)[0]; };
    auto draw = [&](SamplingOptions options) { return sample(model, batch, options); };
    auto follow = [&](DecodingOptions options) { return force(model, forced_batch, options); };
    auto check = [&](const auto& decode, auto options) {
      int steps = 0;
      options.on_step = [&] { ++steps; };
      const std::vector<Hypothesis> whole = decode(options);
      BOOST_TEST(steps > 1);
      for (int last = 1; last <= steps; ++last) {
        int left = last;
        options.on_step = [&] {
          if (--left == 0) throw Stop{};
        };
        BOOST_CHECK_THROW(decode(options), Stop);
        BOOST_TEST(model.training());
        options.on_step = {};
        BOOST_TEST(same(decode(options), whole));
      }
    };
    check(search, beam_options(3, 2));
    check(draw, short_options<SamplingOptions>());
    check(follow, DecodingOptions{});
  });
}

BOOST_AUTO_TEST_CASE(a_live_hypothesis_is_scored_at_its_own_length) {
  Table table({{2, {{0, -1000}, {5, 0}}},
               {5, {{0, -1000}, {3, std::log(0.51)}, {4, std::log(0.49)}}},
               {4, {{0, -1000}, {3, 0}}}});
  BeamOptions options = beam_options(1);
  options.count_end = false, options.length_penalty = 1;
  DecodingBatch batch;
  batch.prefixes = {{5}};
  const Hypothesis found = beam_search(table, batch, options)[0][0];
  BOOST_TEST(found.tokens == (Sentence{5, 4}), boost::test_tools::per_element());
  BOOST_TEST(std::abs(found.score - std::log(0.49) / 2) < 1e-10);  // 5 alone has log 0.51
}

BOOST_AUTO_TEST_CASE(a_shrunk_beam_has_fewer_places_to_finish_in_too) {
  Table table({{2, {{0, -1000}, {5, 0}}},
               {5, {{0, -1000}, {3, 0}, {4, 0}}},
               {4, {{0, -1000}, {3, std::log(0.4)}, {6, std::log(0.6)}}},
               {6, {{0, -1000}, {3, 0}}}});
  BeamOptions options = beam_options(2, 2);
  options.shrinking = true, options.length_penalty = 0;
  DecodingBatch batch;
  batch.prefixes = {{5}};
  const std::vector<Hypothesis> found = beam_search(table, batch, options)[0];
  BOOST_TEST_REQUIRE(found.size() == 2u);
  BOOST_TEST(std::abs(found[0].score - std::log(0.5)) < 1e-10);
  BOOST_TEST(std::abs(found[1].score - std::log(0.3)) < 1e-10);
}

/// A model that keeps its logits.
class Kept : public Table {
 public:
  Kept() : Table({}) {}
  Tensor logits = here(Tensor::of({0, 2, -9, -9, 0, -1, 1, 1, 1, 1, 1, 1}, {1, 12}));
  Variable step(DecoderState& state, const Tensor&, std::vector<AttentionTrace>*) override {
    ++state.position;
    return logits;
  }
};

BOOST_AUTO_TEST_CASE(sampling_leaves_the_logits_of_a_model_as_they_are) {
  Kept model;
  const std::vector<double> before = model.logits.to_vector<double>();
  SamplingOptions options = short_options<SamplingOptions>();
  options.min_length = 2;
  DecodingBatch batch;
  batch.prefixes = {{5}};
  sample(model, batch, options);
  BOOST_TEST(model.logits.to_vector<double>() == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
