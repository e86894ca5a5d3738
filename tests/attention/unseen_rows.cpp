// States that a query does not see change nothing, and those that it sees do. attention/properties/unseen.h has what is
// checked for every method.
#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/properties/unseen.h"
#include "autograd/operations.h"
#include "nn/auxiliary_losses.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, I = 4, T = 7, d = 6;

constexpr AttentionEngine engines[] = {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused};

}  // namespace

BOOST_AUTO_TEST_SUITE(unseen_rows)

BOOST_AUTO_TEST_CASE(states_outside_of_a_window_do_not_matter_to_the_queries_that_do_not_see_them) {
  const Hiding outside{.name = "outside of the window", .tokens = {3}, .readers = {2, 3, 4}};
  int checked = 0;
  for (const char* specification :
       {"sliding(left=1,right=1)", "sliding(left=1,right=1)+relative(clip=2)+gaussian",
        "sliding(left=0,right=1)+window", "sman(width=fixed,distance=1)", "local_m(half_width=1)",
        "sliding(left=1,right=1)+differential", "heads(sliding(left=1,right=1)*1, sman(width=fixed,distance=1)*1)",
        "sliding(left=1,right=1)+talking_heads"})
    for (Device device : {Device::cpu, Device::cuda})
      for (AttentionEngine engine : engines) {
        if (device == Device::cuda && (engine == AttentionEngine::fused || !cuda_is_available())) continue;
        const auto attention = random_attention(specification, Place::encoder);
        const bool computed = hidden_states_change_nothing(*attention, Place::encoder, outside, engine, device);
        checked += device == Device::cpu && computed;
      }
  BOOST_TEST(checked >= 16);
}

BOOST_AUTO_TEST_CASE(on_cuda_a_query_that_sees_nan_is_nan, *with_cuda()) {
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise}) {
    AttentionEngineScope chosen(engine);
    const auto attention =
        random_attention("average(multi_head(relative(clip=2)), multi_head(sliding(left=1)))", Place::decoder);
    attention->to(DType::f32);
    attention->to(Device::cuda);
    Generator generator(6);
    Tensor states = random_tensor({1, T, d}, generator).to(DType::f32);
    states.slice(1, 4, 5).fill(std::numeric_limits<double>::infinity());
    const Variable x(states.to(Device::cuda));
    const Variable out = attention->forward({.query = x, .key = x, .value = x, .causal = true});
    const std::vector<float> numbers = out.value().to_vector<float>();
    for (std::size_t k = 0; k < numbers.size(); ++k)
      BOOST_TEST(std::isnan(numbers[k]) == (k / d >= 4), "token " << k / d);
  }
}

// NaN in, NaN out: replacing rows must not make plausible numbers of them.
BOOST_AUTO_TEST_CASE(a_query_that_sees_nan_is_nan) {
  AttentionEngineScope composed(AttentionEngine::composed);
  const auto attention = random_attention("relative(clip=2)", Place::decoder);
  Generator generator(6);
  Tensor states = random_tensor({1, T, d}, generator);
  states.slice(1, 4, 5).fill(std::numeric_limits<double>::quiet_NaN());
  const Variable x(states, true);
  AttentionTrace trace;
  const Variable out = attention->forward({.query = x, .key = x, .value = x, .causal = true, .trace = &trace});
  const std::vector<double> numbers = out.value().to_vector<double>();
  for (std::size_t k = 0; k < numbers.size(); ++k)
    BOOST_TEST(std::isnan(numbers[k]) == (k / d >= 4), "token " << k / d);
  BOOST_TEST(trace.weights.shape() == Shape({1, 2, T, T}));
  BOOST_TEST(std::isnan(grad(sum(out), {x})[0].value().to_vector<double>()[0]));
}

// Huge numbers that a query sees are read as they are.
BOOST_AUTO_TEST_CASE(a_huge_value_is_a_value) {
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
    AttentionEngineScope chosen(engine);
    const auto attention = random_attention("classic(mean)", Place::cross);
    const Variable x(Tensor::full({1, 2, d}, 1e30, DType::f64), true);
    const Variable query(Tensor::zeros({1, 1, d}, DType::f64));
    const Variable out = attention->forward({.query = query, .key = x, .value = x});
    BOOST_TEST(out.value().to_vector<double>()[0] == 1e30);
    BOOST_TEST(grad(sum(out), {x})[0].value().to_vector<double>()[0] == 0.5);
  }
}

// The second computation draws no new random numbers and rewards no gates twice.
BOOST_AUTO_TEST_CASE(dropout_and_auxiliary_losses_are_those_of_one_call) {
  const auto attention = attention_factory("additive(hidden=2)+flexible(beta=0.5)")(
      {.model_dim = d, .heads = 2, .place = Place::cross, .dropout = 0.5});
  attention->initialise(3);
  Generator generator(7);
  const Tensor states = random_tensor({B, T, d}, generator).to(DType::f32);
  const Variable query(random_tensor({B, I, d}, generator).to(DType::f32));
  auto calls = [&](bool zeros) {
    RandomScope random(RandomSource{9, 0, 0});
    AuxiliaryLosses losses;
    Tensor key = states.clone();
    key.slice(0, 1, 2).slice(1, 3, 4).fill(zeros ? 0 : std::numeric_limits<double>::quiet_NaN());
    std::vector<std::uint8_t> allowed(I * T, 1);
    for (std::size_t i : {0, 1, 2}) allowed[i * T + 3] = 0;
    AttentionInput input{.query = query, .key = key, .value = key};
    input.allowed = Tensor::from(allowed, {1, 1, I, T});
    const Tensor first = attention->forward(input).value().slice(1, 0, 3);
    input.key = input.value = Variable(states);
    std::vector<float> numbers = first.to_vector<float>();
    for (float number : attention->forward(input).value().to_vector<float>()) numbers.push_back(number);
    return std::pair(numbers, losses.terms().size() ? losses.terms()[0].values.size() : 0);
  };
  BOOST_TEST((calls(false).first == calls(true).first));
  BOOST_TEST(calls(false).second == calls(true).second);
}

BOOST_AUTO_TEST_SUITE_END()
