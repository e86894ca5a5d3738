// Every method of the registry inside whole models: step-by-step decoding equals teacher forcing.
#include "tests/nn/sequence_models.h"

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "nn/decoding.h"
#include "tests/attention/attentions.h"
#include "tests/nn/log_probabilities.h"

using namespace fovea;
using namespace fovea::test;

namespace {

bool defined_at(const std::string& specification, Place place) {
  try {
    attention_factory(specification)({.model_dim = 6, .heads = 2, .layers = 2, .place = place});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The model in f64 with random parameters, in evaluation.
void randomise(SequenceModel& model) {
  Generator generator(31);
  model.to(DType::f64);
  for (auto& parameter : model.parameters())
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator, -0.7, 0.7));
  model.train(false);
}

void check_steps(const TestModel& type) {
  std::unique_ptr<SequenceModel> model = type.make();
  randomise(*model);
  NoGrad off;
  SequenceBatch batch = test_batch(*model);
  std::vector<double> whole = model->logits(batch).value().to_vector<double>(),
                      steps = step_by_step(*model, batch).to_vector<double>();
  double largest = 0;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    double difference = std::abs(whole[k] - steps[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  BOOST_TEST(largest < 1e-11, type.name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(models_with_every_method)

BOOST_AUTO_TEST_CASE(decoding_step_by_step_equals_teacher_forcing) {
  const AttentionFactory global = attention_factory("global");
  for (const std::string& specification : all_specifications()) {
    if (specification.starts_with("man")) continue;  // it needs a mask, which no model has
    if (specification.find("man*") != std::string::npos || specification.ends_with("+man")) continue;
    AttentionFactory own = attention_factory(specification);
    bool in_decoder = defined_at(specification, Place::decoder), across = defined_at(specification, Place::cross);
    std::vector<TestModel> types = test_models(global, in_decoder ? own : global, across ? own : global);
    BOOST_TEST_CONTEXT(specification) {
      for (const char* name : {"transformer, pre-norm, one table", "language model"})
        for (const TestModel& type : types)
          if (type.name == name) check_steps(type);
    }
  }
}

BOOST_AUTO_TEST_CASE(recurrent_decoders_work_with_every_mechanism) {
  for (const std::string mechanism : {"classic(additive(hidden=4))",
                                      "classic(general)",
                                      "classic(location(longest=4))",
                                      "classic(mean)",
                                      "classic(laplace(learned=true))",
                                      "classic(gaussian_location(normalize=true))",
                                      "classic(fine_grained(hidden=3))",
                                      "classic(general+local_m(half_width=1))",
                                      "classic(additive+local_p(half_width=1))",
                                      "classic(additive(hidden=4)+flexible)",
                                      "classic(general+flexible(threshold=0.5,p_init=nopen))",
                                      "average(additive+flexible(threshold=0.4), general)",
                                      "concat(additive(hidden=2), laplace, width=4)",
                                      "concat(general*2, head_input=split)",
                                      "global",
                                      "gaussian",
                                      "average(multi_head(additive+flexible), multi_head(gaussian))",
                                      "concat(multi_head(global), additive)",
                                      "window(use=additive,segment=2)",
                                      "heads(global*1, additive+flexible*1)"})
    for (const TestModel& type : test_models({}, {}, attention_factory(mechanism)))
      if (type.name.starts_with("recurrent")) BOOST_TEST_CONTEXT(mechanism) {
          check_steps(type);
        }
}

BOOST_AUTO_TEST_CASE(carried_states_follow_the_hypotheses_of_a_beam) {
  for (const std::string specification :
       {"classic(additive(hidden=4)+flexible)", "classic(general+flexible(threshold=0.3,sigma=1))",
        "heads(additive+flexible(p_init=-1)*1, global*1)", "relative(clip=2)+rotary", "gaussian(window=layer)",
        "window(use=additive)", "classic(laplace)",
        "average(multi_head(relative(clip=2)), multi_head(rotary+gaussian))",
        "concat(multi_head(additive+flexible), multi_head(window, output=false), mean)"}) {
    bool in_decoder = defined_at(specification, Place::decoder);
    AttentionFactory own = attention_factory(specification), global = attention_factory("global");
    for (const TestModel& type : test_models(global, in_decoder ? own : global, in_decoder ? global : own))
      BOOST_TEST_CONTEXT(specification << ", " << type.name) {
        std::unique_ptr<SequenceModel> model = type.make();
        randomise(*model);
        const std::vector<std::vector<std::int32_t>> sources{{1, 4, 5, 8, 7, 6}, {7, 6, 1}};
        DecodingBatch batch;
        if (model->has_source()) {
          PaddedTokens padded = padded_tokens(sources);
          batch = {padded.tokens, padded.lengths};
        } else {
          batch.prefixes.resize(2);
        }
        BeamOptions options;
        options.beam = options.best = 4;
        options.max_length = 7;
        auto found = beam_search(*model, batch, options);
        for (std::size_t s = 0; s < sources.size(); ++s)
          for (const Hypothesis& one : found[s]) {
            std::vector<std::vector<std::int32_t>> source{sources[s]}, target{one.tokens};
            if (!model->has_source()) source.clear();
            double expected = log_probabilities(*model, teacher_forcing_batch(source, target))[0];
            BOOST_TEST(std::abs(one.log_probability - expected) < 1e-10);
          }
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
