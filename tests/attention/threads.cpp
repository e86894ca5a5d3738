// Several threads may run one attention, each with an engine and a tape of its own.
#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/methods/rotary.h"
#include "autograd/operations.h"
#include "tests/attention/attentions.h"
#include "tests/nn/values.h"
#include "tests/several_threads.h"

using namespace fovea;
using namespace fovea::test;

namespace {

struct PlacedAttention {
  std::unique_ptr<Attention> attention;
  Place place;
};
/// The attention in the first of encoder, cross-attention and decoder where the method is defined.
PlacedAttention attention_where_defined(const std::string& specification) {
  for (Place place : {Place::encoder, Place::cross}) try {
      return {random_attention(specification, place), place};
    } catch (const Error&) {
      continue;
    }
  return {random_attention(specification, Place::decoder), Place::decoder};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(an_engine_is_chosen_on_one_thread_and_in_one_scope) {
  using enum AttentionEngine;
  const std::vector<AttentionEngine> engines{composed, fused, fastest, composed};
  std::vector<AttentionEngine> before(4, composed), inside(4), nested(4), after(4, composed);
  AttentionEngineScope outer(fused);
  const std::vector<std::string> errors = run_on_threads(4, [&](int thread) {
    const auto k = static_cast<std::size_t>(thread);
    before[k] = attention_engine();
    {
      AttentionEngineScope scope(engines[k]);
      {
        AttentionEngineScope inner(fused);
        nested[k] = attention_engine();
      }
      inside[k] = attention_engine();
    }
    after[k] = attention_engine();
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
  BOOST_TEST((before == std::vector(4, fastest)));
  BOOST_TEST((nested == std::vector(4, fused)));
  BOOST_TEST((inside == engines));
  BOOST_TEST((after == std::vector(4, fastest)));
  BOOST_TEST((attention_engine() == fused));
}

BOOST_AUTO_TEST_CASE(several_threads_share_one_rotary_module) {
  constexpr int threads = 4, steps = 200;
  constexpr std::int64_t heads = 2, D = 6;
  MethodShape shape{};
  shape.model_dim = heads * D;
  shape.heads = heads;
  shape.head_dim = D;
  RotaryPositions shared(shape, {});
  std::vector<double> largest(threads, 0);
  const std::vector<std::string> errors = run_on_threads(threads, [&](int thread) {
    Generator generator(static_cast<std::uint64_t>(thread));
    RotaryPositions own(shape, {});
    for (std::int64_t step = 0; step < steps; ++step) {
      // growing sequences; every fourth one has positions so large that its table does not begin at position 0
      const std::int64_t T = 1 + 3 * step, first = step % 4 == thread ? 100000 * step : 0;
      Variable x(random_tensor({1, heads, T, D}, generator), true);
      auto run = [&](RotaryPositions& rotary) {
        Variable out = rotary.positioned(x, {first});
        return std::pair(out.value(), grad(sum(square(out) * out), {x})[0].value());
      };
      auto [out, slope] = run(shared);
      auto [expected_out, expected_slope] = run(own);
      const std::vector<double> a = out.to_vector<double>(), b = expected_out.to_vector<double>(),
                                c = slope.to_vector<double>(), d = expected_slope.to_vector<double>();
      double& worst = largest[static_cast<std::size_t>(thread)];
      for (std::size_t k = 0; k < a.size(); ++k)
        worst = std::max({worst, std::abs(a[k] - b[k]), std::abs(c[k] - d[k])});
    }
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
  for (double difference : largest) BOOST_TEST(difference == 0);
}

BOOST_AUTO_TEST_CASE(several_threads_run_every_method_with_an_engine_each) {
  constexpr int threads = 3;
  constexpr std::int64_t B = 2, T = 5, d = 6;
  for (const std::string& specification : all_specifications()) {
    const PlacedAttention placed = attention_where_defined(specification);
    Attention* attention = placed.attention.get();
    using Results = std::vector<std::vector<double>>;
    auto run = [&](int thread) {
      AttentionEngineScope engine(!has_fused_form(specification) || thread % 2 ? AttentionEngine::composed
                                                                               : AttentionEngine::fused);
      Generator generator(static_cast<std::uint64_t>(thread));
      std::vector<Variable> inputs{Variable(random_tensor({B, T + thread, d}, generator), true)};
      for (const NamedParameter& parameter : attention->parameters()) inputs.push_back(parameter.variable);
      Variable out = attention->forward({.query = inputs[0],
                                         .key = inputs[0],
                                         .value = inputs[0],
                                         .mask = test_mask(T + thread, T + thread),
                                         .causal = placed.place == Place::decoder});
      Results results{out.value().to_vector<double>()};
      for (const Variable& gradient : grad(sum(square(out)), inputs))
        results.push_back(gradient.value().to_vector<double>());
      return results;
    };
    std::vector<Results> together(threads);
    const std::vector<std::string> errors =
        run_on_threads(threads, [&](int thread) { together[static_cast<std::size_t>(thread)] = run(thread); });
    BOOST_TEST_CONTEXT(specification) {
      for (const std::string& error : errors) BOOST_TEST(error == "");
      for (int thread = 0; thread < threads; ++thread)
        BOOST_TEST((together[static_cast<std::size_t>(thread)] == run(thread)), "thread " << thread);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
