// Losses that methods add to that of their task, through whole models.
#include "nn/auxiliary_losses.h"

#include <boost/test/unit_test.hpp>

#include "attention/registry.h"
#include "autograd/operations.h"
#include "nn/encoder_classifier.h"
#include "tests/nn/sequence_models.h"

using namespace fovea;
using namespace fovea::test;

namespace {

using Values = std::vector<double>;

const std::vector<std::int32_t> source_lengths{5, 3, 4}, target_lengths{4, 6, 1};
constexpr std::int64_t sentences = 3;

/// Returns the model with f64 initial values, in training mode. It has no dropout.
std::unique_ptr<SequenceModel> ready(std::unique_ptr<SequenceModel> model) {
  model->initialise(7);
  model->to(DType::f64);
  model->train(true);
  return model;
}

std::unique_ptr<SequenceModel> transformer(const std::string& encoder, const std::string& decoder,
                                           const std::string& cross) {
  TransformerOptions stack = test_stack(Norm::pre);
  stack.dropout = 0;
  return ready(std::make_unique<TransformerModel>(
      TransformerModelOptions{
          .source_vocabulary = test_vocabulary, .vocabulary = test_vocabulary, .encoder = stack, .decoder = stack},
      encoder_layer(attention_factory(encoder)), decoder_layer(attention_factory(decoder), attention_factory(cross))));
}

std::unique_ptr<SequenceModel> language_model(const std::string& attention) {
  TransformerOptions stack = test_stack(Norm::pre);
  stack.dropout = 0;
  return ready(std::make_unique<TransformerModel>(TransformerModelOptions{.source_vocabulary = 0,
                                                                          .vocabulary = test_vocabulary,
                                                                          .encoder = stack,
                                                                          .decoder = stack,
                                                                          .tied = Tied::decoder},
                                                  encoder_layer(attention_factory(attention))));
}

std::unique_ptr<SequenceModel> recurrent(const std::string& attention) {
  return ready(std::make_unique<RecurrentModel>(RecurrentModelOptions{.source_vocabulary = test_vocabulary,
                                                                      .vocabulary = test_vocabulary,
                                                                      .embedding_dim = 5,
                                                                      .dim = 6,
                                                                      .heads = 2,
                                                                      .readout_dim = 4},
                                                attention_factory(attention)));
}

/// The batch, with so many columns of padding behind its longest sentences.
SequenceBatch batch_for(const SequenceModel& model, std::int64_t padding) {
  SequenceBatch batch{.input = test_tokens(target_lengths, 6 + padding, 2),
                      .lengths = i32(target_lengths, {sentences})};
  if (model.has_source()) {
    batch.source = test_tokens(source_lengths, 5 + padding);
    batch.source_lengths = i32(source_lengths, {sentences});
  }
  return batch;
}

Values terms_of(SequenceModel& model, std::int64_t padding, SequenceTrace* trace = nullptr) {
  AuxiliaryLosses losses;
  model.logits(batch_for(model, padding), trace);
  if (losses.empty()) return Values(sentences, 0);
  return losses.per_sentence(i32(target_lengths, {sentences})).value().to_vector<double>();
}

/// Adds weight · (mean of a trace's quantity over heads and real queries) to each sentence's sum.
void add_mean(Values& sums, const AttentionTrace& trace, const std::string& name, double weight,
              const std::vector<std::int32_t>& lengths) {
  for (const TracedQuantity& quantity : trace.quantities) {
    if (quantity.name != name) continue;
    const Tensor value = quantity.value.value();
    for (std::int64_t b = 0; b < sentences; ++b) {
      double sum = 0;
      std::int64_t count = 0;
      if (value.rank() == 1) {  // [H]: the same for all sentences and queries
        for (double one : value.to_vector<double>()) sum += one, ++count;
      } else {
        for (std::int64_t h = 0; h < value.size(1); ++h)
          for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t, ++count)
            sum += value.select(0, b).select(0, h).select(0, t).item();
      }
      sums[static_cast<std::size_t>(b)] += weight * sum / static_cast<double>(count);
    }
  }
}

/// The sum over all attentions of the model, by hand.
Values expected_terms(const SequenceTrace& trace, const std::string& quantity, double weight) {
  Values sums(sentences, 0);
  for (const AttentionTrace& one : trace.encoder) add_mean(sums, one, quantity, weight, source_lengths);
  for (const AttentionTrace& one : trace.decoder) add_mean(sums, one, quantity, weight, target_lengths);
  return sums;
}

void check_close(const Values& found, const Values& expected, const std::string& name) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k)
    BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-9 * (1 + std::abs(expected[k])),
               name << ": " << found[k] << " " << expected[k]);
}

struct Case {
  std::string name;
  std::function<std::unique_ptr<SequenceModel>(double weight)> make;  ///< a weight of 0: the same without the term
  std::string quantity;
  double sign;
};

std::vector<Case> cases() {
  auto span = [](double weight, const std::string& more) {
    return fmt::format("adaptive_span(ramp=2,longest=6,penalty={}{})", weight, more);
  };
  auto flexible = [](double weight) { return fmt::format("classic(additive+flexible(beta={}))", weight); };
  return {
      {"flexible in a Transformer", [=](double w) { return transformer("global", "global", flexible(w)); }, "gate", -1},
      {"flexible in a recurrent model", [=](double w) { return recurrent(flexible(w)); }, "gate", -1},
      {"flexible without a first penalty",
       [=](double w) { return recurrent(fmt::format("classic(general+flexible(beta={},p_init=nopen))", w)); }, "gate",
       -1},
      {"adaptive_span everywhere",
       [=](double w) { return transformer(span(w, ""), span(w, ",after_softmax=true"), "global"); }, "span", 1},
      {"adaptive_span from queries",
       [=](double w) { return transformer(span(w, ",from_query=true"), span(w, ",from_query=true"), "global"); },
       "span", 1},
      {"adaptive_span in one layer of a language model",
       [=](double w) { return language_model(span(w, ",from_query=true,layers=2")); }, "span", 1},
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(auxiliary_losses_of_methods)

BOOST_AUTO_TEST_CASE(the_terms_are_those_of_the_equations) {
  for (const Case& one : cases()) {
    const auto model = one.make(0.25);
    SequenceTrace trace;
    const Values terms = terms_of(*model, 0, &trace);
    const Values expected = expected_terms(trace, one.quantity, one.sign * 0.25);
    BOOST_TEST(one.sign * expected.front() > 0.01, one.name);
    check_close(terms, expected, one.name);
  }
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  for (const Case& one : cases()) {
    const auto model = one.make(0.25);
    check_close(terms_of(*model, 3), terms_of(*model, 0), one.name);
  }
}

BOOST_AUTO_TEST_CASE(there_are_none_in_evaluation_and_without_a_weight) {
  for (const Case& one : cases()) {
    const auto with = one.make(0.25), without = one.make(0);
    const SequenceBatch batch = batch_for(*with, 0);
    const Values logits = with->logits(batch).value().to_vector<double>();
    BOOST_TEST(without->logits(batch).value().to_vector<double>() == logits, boost::test_tools::per_element());
    check_close(terms_of(*without, 0), Values(sentences, 0), one.name);
    with->train(false);
    check_close(terms_of(*with, 0), Values(sentences, 0), one.name);
  }
}

BOOST_AUTO_TEST_CASE(their_gradients_reach_the_parameters_of_the_method) {
  for (const Case& one : cases()) {
    const auto model = one.make(0.25);
    AuxiliaryLosses losses;
    model->logits(batch_for(*model, 1));
    backward(sum(losses.per_sentence(i32(target_lengths, {sentences}))));
    bool reaches = false;
    for (const NamedParameter& parameter : model->parameters()) {
      const bool is_own = parameter.name.ends_with("flexible.gate_bias") || parameter.name.ends_with("span.span");
      if (!is_own || !parameter.variable.grad().defined()) continue;
      for (double g : parameter.variable.grad().value().to_vector<double>()) reaches |= g * one.sign > 0;
    }
    BOOST_TEST(reaches, one.name);
  }
}

BOOST_AUTO_TEST_CASE(classifiers_know_the_lengths_of_their_sentences) {
  auto terms = [](const std::vector<std::int32_t>& lengths, std::int64_t padded, std::vector<AttentionTrace>* traces) {
    EncoderClassifierOptions options{.vocabulary = test_vocabulary, .encoder = test_stack(Norm::pre)};
    options.encoder.dropout = 0;
    EncoderClassifier model(options, attention_factory("adaptive_span(longest=6,penalty=0.5,from_query=true)"));
    model.initialise(7);
    model.to(DType::f64);
    model.train(true);
    AuxiliaryLosses losses;
    const Tensor of_batch = i32(lengths, {std::ssize(lengths)});
    model.forward(test_tokens(lengths, padded), of_batch, traces);
    return losses.per_sentence(of_batch).value().to_vector<double>();
  };
  std::vector<AttentionTrace> traces;
  const Values found = terms(source_lengths, 5, &traces);
  Values expected(sentences, 0);
  for (const AttentionTrace& one : traces) add_mean(expected, one, "span", 0.5, source_lengths);
  check_close(found, expected, "classifier");
  check_close(terms(source_lengths, 9, nullptr), expected, "padded");
  check_close(terms({5}, 5, nullptr), {expected[0]}, "alone");
}

BOOST_AUTO_TEST_SUITE_END()
