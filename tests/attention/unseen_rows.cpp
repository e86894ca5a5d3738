// States that a query does not see change nothing: NaN, infinities and huge numbers behind lengths, `allowed`,
// documents, causality or windows give bit for bit what zeros in their place give, in the forward and in the backward
// pass.
#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "nn/auxiliary_losses.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, I = 4, T = 7, d = 6;

/// One way to hide keys: the restriction, the hidden tokens, and the queries that still see them.
struct Hiding {
  const char* name;
  AttentionInput restriction;         ///< lengths, documents or `allowed`
  std::vector<std::int64_t> tokens;   ///< tokens of sentence 1 with states out of range
  std::vector<std::int64_t> readers;  ///< queries of sentence 1 that may see these tokens; their cotangent is 0
};

/// Sets these rows of sentence 1 to 0, or to numbers out of range.
Tensor with_rows(const Tensor& states, const std::vector<std::int64_t>& tokens, bool zeros) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double numbers[] = {std::numeric_limits<double>::quiet_NaN(), 1e38, infinity, -infinity, -1e38};
  Tensor out = states.clone();
  for (const std::int64_t t : tokens)
    for (std::int64_t k = 0; k < d; ++k)
      out.slice(0, 1, 2).slice(1, t, t + 1).slice(2, k, k + 1).fill(zeros ? 0 : numbers[(t + k * (t + 1)) % 5]);
  return out;
}

/// The output and the gradients of states and parameters, in f32.
std::vector<Tensor> results(Attention& attention, Place place, Device device, const Hiding& hiding, bool zeros,
                            bool is_causal) {
  Generator generator(5);
  const Tensor states = random_tensor({B, T, d}, generator), queries = random_tensor({B, I, d}, generator);
  const bool is_cross = place == Place::cross;
  Variable key(with_rows(states, hiding.tokens, zeros).to(DType::f32).to(device), true);
  Variable query = is_cross ? Variable(queries.to(DType::f32).to(device), true) : key;
  AttentionInput input = hiding.restriction;
  for (Tensor* x : {&input.key_lengths, &input.allowed})
    if (x->defined()) *x = x->to(device);
  input.query = query, input.key = input.value = key;
  if (attention.heads() == 2) input.mask = Variable(test_mask(query.size(1), T).to(device));
  input.causal = is_causal;
  std::vector<Variable> leaves{key};
  if (is_cross) leaves.push_back(query);
  for (auto& parameter : attention.parameters()) leaves.push_back(parameter.variable);
  const std::uint64_t waits = kernels(device).synchronizations();
  const Variable out = attention.forward(input);
  Tensor cotangent = random_tensor(out.shape(), generator);
  for (const std::int64_t i : hiding.readers) cotangent.slice(0, 1, 2).slice(1, i, i + 1).fill(0);
  cotangent = cotangent.to(DType::f32).to(device);
  std::vector<Tensor> found;
  for (const Variable& gradient : grad(out, leaves, cotangent)) found.push_back(gradient.value());
  if (device != Device::cpu) BOOST_TEST(kernels(device).synchronizations() == waits, "the host waited for the device");
  // the readers' own rows may be anything
  Tensor rows = out.value().to(Device::cpu).clone();
  for (const std::int64_t i : hiding.readers) rows.slice(0, 1, 2).slice(1, i, i + 1).fill(0);
  found.insert(found.begin(), rows);
  return found;
}

/// all_specifications(), and mechanisms without projections of their own.
std::vector<std::string> with_mechanisms() {
  std::vector<std::string> specifications = all_specifications();
  for (const char* mechanism :
       {"classic(dot)", "classic(additive(hidden=2)+gaussian)", "classic(general+local_p(half_width=1))",
        "average(dot*2, laplace)", "concat(additive(hidden=2), general+window, head_input=split)"})
    specifications.emplace_back(mechanism);
  return specifications;
}

/// Checks one way of hiding for every method, place and engine. Returns how many there were.
int check_everywhere(const Hiding& hiding, const std::vector<Place>& places, Device device, bool is_causal,
                     const std::vector<std::string>& specifications = with_mechanisms()) {
  int checked = 0;
  for (const std::string& specification : specifications)
    for (Place place : places)
      for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
        if (engine == AttentionEngine::fused && device != Device::cpu) continue;
        AttentionEngineScope chosen(engine, 2);
        std::unique_ptr<Attention> attention;
        std::vector<Tensor> zeros;
        try {
          attention = random_attention(specification, place);
          attention->to(DType::f32);
          attention->to(device);
          zeros = results(*attention, place, device, hiding, true, is_causal);
        } catch (const Error&) {
          continue;  // not defined here
        }
        ++checked;
        const std::vector<Tensor> others = results(*attention, place, device, hiding, false, is_causal);
        // numbers that are replaced have gradient 0; a zero that is a query or seen may have another one
        zeros[1] = with_rows(zeros[1].to(Device::cpu), hiding.tokens, true);
        for (std::size_t k = 0; k < zeros.size(); ++k)
          BOOST_TEST((others[k].to_vector<float>() == zeros[k].to_vector<float>()),
                     hiding.name << ": " << specification << " in place " << static_cast<int>(place) << ", engine "
                                 << static_cast<int>(engine) << ", tensor " << k << " (0: the output)");
      }
  return checked;
}

Hiding behind_lengths() {
  AttentionInput input;
  input.key_lengths = Tensor::from(std::vector<std::int32_t>{T, 4}, {B});
  return {"behind key_lengths", input, {4, 5, 6}, {}};
}
/// Tokens that `allowed` hides from all queries. In self-attention they are still queries, whose own results are NaN.
Hiding not_allowed(bool is_cross) {
  AttentionInput input;
  input.allowed = Tensor::from(std::vector<std::uint8_t>{1, 1, 0, 1, 1, 0, 1}, {1, 1, 1, T});
  return {"never allowed", input, {2, 5}, is_cross ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{2, 5}};
}

/// Some ways to hide keys, each for every method, place and engine.
void check_keys_that_no_query_sees(Device device, int least) {
  BOOST_TEST(check_everywhere(behind_lengths(), {Place::encoder, Place::cross}, device, false) > 2 * least);
  BOOST_TEST(check_everywhere(behind_lengths(), {Place::decoder}, device, true) > least);
  BOOST_TEST(check_everywhere(not_allowed(true), {Place::cross}, device, false) > least);
  BOOST_TEST(check_everywhere(not_allowed(false), {Place::encoder}, device, false) > least);
}

void check_keys_that_some_queries_see(Device device, int least) {
  BOOST_TEST(check_everywhere({"later tokens", {}, {4, 6}, {4, 5, 6}}, {Place::decoder}, device, true) > least);

  AttentionInput documents;
  documents.documents = Tensor::from(std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 2, 2}, {B, T});
  BOOST_TEST(check_everywhere({"another document", documents, {3}, {2, 3, 4}}, {Place::encoder}, device, false) >
             least * 4 / 5);

  const std::vector<std::string> windows{"sliding(left=1,right=1)",
                                         "sliding(left=1,right=1)+relative(clip=2)+gaussian",
                                         "sliding(left=0,right=1)+window",
                                         "sman(width=fixed,distance=1)",
                                         "local_m(half_width=1)",
                                         "sliding(left=1,right=1)+differential",
                                         "heads(sliding(left=1,right=1)*1, sman(width=fixed,distance=1)*1)",
                                         "sliding(left=1,right=1)+talking_heads"};
  const Hiding outside{"outside of the window", {}, {3}, {2, 3, 4}};
  BOOST_TEST(check_everywhere(outside, {Place::encoder}, device, false, windows) >= 16);

  AttentionInput masks;
  std::vector<std::uint8_t> allowed(I * T, 1);
  for (std::size_t i : {0, 2}) allowed[i * T + 3] = 0;
  masks.allowed = Tensor::from(allowed, {1, 1, I, T});
  BOOST_TEST(check_everywhere({"hidden from some queries", masks, {3}, {1, 3}}, {Place::cross}, device, false) > least);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unseen_rows)

BOOST_AUTO_TEST_CASE(keys_that_no_query_sees_do_not_matter) { check_keys_that_no_query_sees(Device::cpu, 250); }

BOOST_AUTO_TEST_CASE(keys_that_some_queries_see_do_not_matter_to_the_others) {
  check_keys_that_some_queries_see(Device::cpu, 250);
}

// On a device the host does not wait to know whether numbers are out of range.
BOOST_AUTO_TEST_CASE(on_cuda_keys_that_no_query_sees_do_not_matter, *with_cuda()) {
  check_keys_that_no_query_sees(Device::cuda, 150);
}

BOOST_AUTO_TEST_CASE(on_cuda_keys_that_some_queries_see_do_not_matter_to_the_others, *with_cuda()) {
  check_keys_that_some_queries_see(Device::cuda, 150);
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
