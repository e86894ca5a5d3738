// What every model of sequences owes: gradients, decoding step by step, padding, order.
#include "tests/nn/sequence_models.h"

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "nn/loss.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/plain_attention.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// body(model) of every type, in f64 and with random parameters; not training.
void for_every_model(const std::function<void(SequenceModel&)>& body) {
  for (const TestModel& type : test_models(plain_attention, plain_attention, plain_attention))
    BOOST_TEST_CONTEXT(type.name) {
      std::unique_ptr<SequenceModel> model = type.make();
      randomise(*model);
      model->train(false);
      body(*model);
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_models)

BOOST_AUTO_TEST_CASE(models_pass_gradcheck) {
  for_every_model([](SequenceModel& model) {
    // one long sentence: where padding is looked up its row's gradient is 0 by decree
    SequenceBatch batch;
    if (model.has_source()) batch.source = test_tokens({4, 4}, 4);
    batch.input = test_tokens({3, 3}, 3, 1);
    const GradcheckOptions some{.elements = by_device<std::size_t>(0, 3)};
    BOOST_TEST(module_gradcheck(
                   model, [&](auto&) { return model.logits(batch); }, {}, some) == "");
  });
}

// The parameters of tied tables and of recurrent layers are used more than once.
BOOST_AUTO_TEST_CASE(gradients_of_micro_batches_add_up_bit_for_bit) {
  for (const TestModel& type : test_models(plain_attention, plain_attention, plain_attention))
    BOOST_TEST_CONTEXT(type.name) {
      std::unique_ptr<SequenceModel> model = type.make();
      model->to(test_device());
      model->initialise(3);
      std::vector<Variable> parameters;
      for (const NamedParameter& p : model->parameters()) parameters.push_back(p.variable);
      auto loss = [&](std::int64_t micro_batch) {
        RandomScope random({.seed = 5, .micro_batch = micro_batch});
        SequenceBatch batch = test_batch(*model, micro_batch);
        return model->loss(batch, test_tokens({5, 5, 5}, 5, 3 + static_cast<int>(micro_batch)), {});
      };
      const Gradients first = grad(loss(0), parameters), second = grad(loss(1), parameters);
      for (std::int64_t k : {0, 1}) backward(loss(k));
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        Tensor sum = (first[k] + second[k]).value();
        if (parameters[k].grad().defined())
          BOOST_TEST(parameters[k].grad().value().to_vector<float>() == sum.to_vector<float>(),
                     model->parameters()[k].name);
        else
          BOOST_TEST(largest_difference(sum, here(Tensor::zeros(sum.shape()))) == 0);
      }
    }
}

BOOST_AUTO_TEST_CASE(step_by_step_is_teacher_forcing) {
  for_every_model([](SequenceModel& model) {
    SequenceBatch batch = test_batch(model);
    Tensor whole = model.logits(batch).value();
    BOOST_TEST(largest_difference(step_by_step(model, batch), whole) < 1e-12);
    NoGrad off;
    BOOST_TEST(largest_difference(step_by_step(model, batch), whole) < 1e-12);
  });
}

BOOST_AUTO_TEST_CASE(a_memory_writes_to_its_own_rows_only_and_may_lose_all_hypotheses) {
  DecoderMemory memory;
  int owner = 0;
  const Variable rows(here(Tensor::of({0, 1, 2, 3, 4, 5}, {2, 3, 1})), true);
  memory.append(&owner, rows);  // recorded: the memory keeps the caller's rows
  NoGrad off;
  memory.reorder({0, 0});
  BOOST_TEST(rows.value().to_vector<double>() == (std::vector<double>{0, 1, 2, 3, 4, 5}),
             boost::test_tools::per_element());
  const Variable one(here(Tensor::of({6, 7}, {2, 1, 1})));
  BOOST_TEST(memory.append(&owner, one).value().to_vector<double>() == (std::vector<double>{0, 1, 2, 6, 0, 1, 2, 7}),
             boost::test_tools::per_element());
  memory.reorder({});
  BOOST_TEST(memory.append(&owner, Variable(here(Tensor::zeros({0, 1, 1})))).value().shape().str() == "[0, 5, 1]");
  memory.reorder({});
}

BOOST_AUTO_TEST_CASE(hypotheses_go_on_from_their_parents) {
  for_every_model([](SequenceModel& model) {
    SequenceBatch batch = test_batch(model);
    Tensor whole = model.logits(batch).value();
    NoGrad off;
    DecoderState state = model.start(batch.source, batch.source_lengths);
    std::vector<std::int64_t> sentence{0, 1, 2};
    const std::vector<std::vector<std::int64_t>> parents{{0, 1, 2}, {2, 0, 0, 1}, {1, 0, 2, 3}, {3, 1}, {1, 0}};
    for (std::size_t t = 0; t < parents.size(); ++t) {
      state.memory.reorder(parents[t]);
      std::vector<std::int64_t> moved;
      std::vector<std::int32_t> tokens;
      for (std::int64_t parent : parents[t]) {
        moved.push_back(sentence[static_cast<std::size_t>(parent)]);
        tokens.push_back(batch.input.data<std::int32_t>()[moved.back() * 5 + static_cast<std::int64_t>(t)]);
      }
      sentence = moved;
      Tensor logits = model.step(state, i32(tokens, {std::ssize(tokens)})).value();
      for (std::size_t r = 0; r < sentence.size(); ++r)
        BOOST_TEST(largest_difference(logits.select(0, static_cast<int>(r)),
                                      whole.select(0, sentence[r]).select(0, static_cast<std::int64_t>(t))) < 1e-12);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_memory_keeps_every_hypothesis_its_own_rows_and_one_for_each_source) {
  NoGrad off;
  DecoderMemory memory;
  int source_owner = 0, prefix_owner = 0;
  // what a hypothesis should have: its source's number, and the tokens that it has read
  std::vector<std::vector<double>> expected{{10}, {20}, {30}};
  auto sources = [&] { return memory.source_rows(&source_owner).value().to_vector<double>(); };
  memory.source_rows(&source_owner, [] { return Variable(here(Tensor::of({10, 20, 30}, {3, 1}))); });
  memory.source_rows({&source_owner, 1}, [] { return Variable(here(Tensor::of({1, 2, 3}, {3}))); });
  struct Turn {
    std::vector<std::int64_t> parents;
    std::int64_t together;  // hypotheses of each source
  };
  // each source twice; some stay where their parents are and others do not; two change places; sources end
  for (const Turn& turn : std::vector<Turn>{{{0, 0, 1, 1, 2, 2}, 2},
                                            {{0, 0, 3, 3, 4, 5}, 2},
                                            {{1, 0, 2, 2, 5, 4}, 2},
                                            {{0, 1, 4, 4}, 2},
                                            {{0, 2, 2, 3}, 0},
                                            {{3, 0}, 0},
                                            {{1, 1, 1}, 3}}) {
    memory.reorder(turn.parents);
    std::vector<std::vector<double>> moved;
    for (std::int64_t parent : turn.parents) moved.push_back(expected[static_cast<std::size_t>(parent)]);
    expected = moved;
    std::vector<double> added;
    for (auto& hypothesis : expected) {
      added.push_back(static_cast<double>(100 * hypothesis.size() + added.size()));
      hypothesis.push_back(added.back());
    }
    const std::int64_t R = std::ssize(expected);
    std::vector<double> prefixes =
        memory.append(&prefix_owner, Variable(Tensor::from(added, {R, 1, 1}))).value().to_vector<double>();
    std::vector<double> of_source, all;
    for (const auto& hypothesis : expected) {
      of_source.push_back(hypothesis[0]);
      all.insert(all.end(), hypothesis.begin() + 1, hypothesis.end());
    }
    BOOST_TEST(prefixes == all);
    BOOST_TEST(sources() == of_source);
    const std::vector<double> numbers = memory.source_rows({&source_owner, 1}).value().to_vector<double>();
    for (std::size_t r = 0; r < numbers.size(); ++r) BOOST_TEST(10 * numbers[r] == of_source[r]);
    DecoderMemory::GroupBySource group(memory, true);
    BOOST_TEST(memory.hypotheses_per_source() == turn.together);
    if (turn.together == 0) continue;
    std::vector<double> once_each;
    for (std::size_t r = 0; r < of_source.size(); r += static_cast<std::size_t>(turn.together))
      once_each.push_back(of_source[r]);
    BOOST_TEST(sources() == once_each);
  }
  BOOST_TEST(memory.hypotheses_per_source() == 0);
}

// An attention that has "cross" in its name need not look at a source.
BOOST_AUTO_TEST_CASE(attentions_look_at_the_source_by_their_place) {
  AttentionTrace trace;
  trace.name = "0.cross";
  trace.place = Place::decoder;
  BOOST_TEST(!looks_at_source(trace));
  trace.name = "0.alignment";
  trace.place = Place::cross;
  BOOST_TEST(looks_at_source(trace));
  for_every_model([](SequenceModel& model) {
    SequenceTrace traces;
    model.logits(test_batch(model), &traces);
    for (const AttentionTrace& each : traces.encoder) BOOST_TEST((each.place == Place::encoder));
    for (const AttentionTrace& each : traces.decoder) BOOST_TEST((each.place != Place::encoder));
    BOOST_TEST(std::any_of(traces.decoder.begin(), traces.decoder.end(), looks_at_source) == model.has_source());
  });
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  for_every_model([](SequenceModel& model) {
    Tensor tight = model.logits(test_batch(model)).value(), wide = model.logits(test_batch(model, 4)).value();
    BOOST_TEST(largest_difference(tight, wide) < 1e-13);
    // and none of the target's: shorter rows are what they are alone
    SequenceBatch batch = test_batch(model), padded = batch;
    padded.input = test_tokens({5, 2, 3}, 5, 2);
    padded.lengths = i32({5, 2, 3}, {3});
    Tensor with_pads = model.logits(padded).value();
    for (std::int64_t b = 0; b < 3; ++b) {
      std::int64_t n = std::vector<std::int64_t>{5, 2, 3}[static_cast<std::size_t>(b)];
      BOOST_TEST(largest_difference(with_pads.select(0, b).slice(0, 0, n), tight.select(0, b).slice(0, 0, n)) < 1e-12);
    }
  });
}

BOOST_AUTO_TEST_CASE(traces_have_the_weights_of_every_attention) {
  for_every_model([](SequenceModel& model) {
    SequenceTrace trace;
    model.logits(test_batch(model), &trace);
    BOOST_TEST_REQUIRE(!trace.decoder.empty());
    const Shape& last = trace.decoder.back().weights.shape();
    BOOST_TEST((last == Shape{3, 2, 5, 5}), last.str());
  });
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named) {
  TransformerModelOptions options{.source_vocabulary = 7, .vocabulary = 9, .encoder = test_stack(Norm::pre)};
  options.decoder = options.encoder;
  auto make = [&] {
    TransformerModel model(options, encoder_layer(plain_attention), decoder_layer(plain_attention, plain_attention));
  };
  BOOST_TEST(error_of(make) ==
             "TransformerModel: the source vocabulary has 7 tokens, the target's 9; tied=all needs one vocabulary");
}

BOOST_AUTO_TEST_SUITE_END()
