// Row quantities: what they are, and that every engine computes the same without a matrix of all pairs.
#include "nn/row_quantities.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <boost/test/unit_test.hpp>
#include <omp.h>

#include "attention/engine/row_quantities.h"
#include "attention/engine/tiles.h"
#include "autograd/operations.h"
#include "tensor/reduce.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Numbers = std::vector<double>;

struct Sizes {
  std::int64_t sentences, queries, keys;
  std::vector<std::int32_t> lengths;
};

/// The inputs of a call with random states, of which a third of all pairs, and all pairs of some queries, are hidden.
AttentionInput random_input(Place place, const Sizes& sizes, DType dtype = DType::f64, Device device = Device::cpu) {
  Generator generator(23);
  auto states = [&](std::int64_t rows) {
    return Variable(random_tensor({sizes.sentences, rows, 6}, generator, -2, 2).to(dtype).to(device), true);
  };
  const Variable key = states(sizes.keys), query = place == Place::cross ? states(sizes.queries) : key;
  const std::int64_t I = query.size(1), J = sizes.keys;
  std::vector<std::uint8_t> allowed;
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < I; ++i)
      for (std::int64_t j = 0; j < J; ++j) allowed.push_back(i % 5 != 3 && (2 * i + j + h) % 3 != 1);
  return {.query = query,
          .key = key,
          .value = key,
          .key_lengths = Tensor::from(sizes.lengths, {sizes.sentences}).to(device),
          .mask = test_mask(I, J).to(dtype).to(device),
          .allowed = Tensor::from(allowed, {1, 2, I, J}).to(device),
          .causal = place == Place::decoder};
}

/// The row quantities as numbers, one vector for each member, and the output.
std::vector<Numbers> rows_of(Attention& attention, AttentionInput input) {
  RowQuantities rows;
  AttentionTrace trace;
  trace.rows = &rows;
  input.trace = &trace;
  const Variable out = attention.forward(input);
  BOOST_TEST(!trace.weights.defined());
  BOOST_TEST(trace.quantities.empty());
  std::vector<Numbers> all;
  for (const auto member : row_quantities_members) all.push_back((rows.*member).to_vector<double>());
  all.push_back(out.value().to_vector<double>());
  return all;
}

void check_alike(const std::vector<Numbers>& found, const std::vector<Numbers>& expected, double tolerance) {
  const char* names[] = {"maximum", "key", "logsumexp", "entropy", "key_mass", "output"};
  BOOST_REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    BOOST_REQUIRE(found[k].size() == expected[k].size());
    for (std::size_t e = 0; e < found[k].size(); ++e) {
      const double a = found[k][e], b = expected[k][e];
      if (a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))) continue;
      BOOST_TEST(false, names[k] << ", element " << e << ": " << a << ", expected " << b);
      return;
    }
  }
}

/// body(attention, place) for these specifications, in every place where they are defined.
void for_each(const std::vector<std::string>& specifications, const std::function<void(Attention&, Place)>& body) {
  for (const std::string& specification : specifications)
    for (Place place : all_places()) BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
        std::unique_ptr<Attention> attention;
        {
          AttentionEngineScope composed(AttentionEngine::composed);
          attention = usable_attention(specification, place);
        }
        if (attention) body(*attention, place);
      }
}

/// The quantities of rows of logits and weights [rows, J], by plain loops.
struct PlainRows {
  Numbers maximum, key, logsumexp, entropy;
};
PlainRows plain_rows(const Numbers& logits, const Numbers& weights, std::int64_t J) {
  PlainRows rows;
  for (std::size_t at = 0; at < logits.size(); at += static_cast<std::size_t>(J)) {
    double maximum = -infinity, key = -1, total = 0, size = 0, entropy = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(J); ++j) {
      if (logits[at + j] > maximum) maximum = logits[at + j], key = static_cast<double>(j);
      total += std::exp(logits[at + j]);
      size += std::abs(weights[at + j]);
    }
    for (std::size_t j = 0; j < static_cast<std::size_t>(J); ++j)
      if (const double p = std::abs(weights[at + j]) / size; p > 0) entropy -= p * std::log(p);
    rows.maximum.push_back(maximum);
    rows.key.push_back(key);
    rows.logsumexp.push_back(std::log(total));
    rows.entropy.push_back(entropy);
  }
  return rows;
}

/// Small and unusual sizes. Two sentences have length 0: their queries see no key.
const std::vector<Sizes> all_sizes{{2, 1, 1, {1, 0}}, {3, 17, 19, {19, 0, 11}}, {1, 130, 71, {67}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(row_quantities_of_attention)

// The logits and weights of the same call, traced by the composed engine, define the quantities. Combinations trace the
// logits of each mechanism alone, and mixers have none.
BOOST_AUTO_TEST_CASE(they_are_those_of_the_traced_logits_and_weights) {
  AttentionEngineScope composed(AttentionEngine::composed);
  int methods = 0;
  for_each(all_specifications(), [&](Attention& attention, Place place) {
    AttentionInput input = random_input(place, all_sizes[1]);
    AttentionTrace trace;
    {
      TracedEquationScope whole;
      input.trace = &trace;
      attention.forward(input);
      input.trace = nullptr;
    }
    const Plan plan = plan_of(attention, input);
    const auto logits = std::ranges::find(trace.quantities, "logits", &TracedQuantity::name);
    if (logits == trace.quantities.end() || !plan.mixers.empty()) return;
    ++methods;
    const auto rows_last = [](const Variable& x) {
      return (x.rank() == 5 ? permute(x, {0, 1, 2, 4, 3}) : x).value().to_vector<double>();
    };
    const std::vector<Numbers> found = rows_of(attention, input);
    const Numbers z = rows_last(logits->value), w = rows_last(trace.weights);
    PlainRows expected = plain_rows(z, w, input.key.size(1));
    if (plan.sink.defined() || !plan.extra_keys.empty()) expected.logsumexp = found[2];
    check_alike({found.begin(), found.end() - 1},
                {expected.maximum, expected.key, expected.logsumexp, expected.entropy,
                 sum(trace.weights, {2}).value().to_vector<double>()},
                1e-10);
    if (!dynamic_cast<MultiHeadAttention*>(&attention)) return;  // plan_of() knows no other plans
    if (!plan.windows.empty() || !plan.normalizers.empty() || !plan.mixings.empty() || !plan.second_maps.empty())
      return;
    Numbers softmax;  // also with sinks and keys without tokens
    for (std::size_t e = 0; e < z.size(); ++e)
      softmax.push_back(z[e] == -infinity ? 0
                                          : std::exp(z[e] - found[2][e / static_cast<std::size_t>(input.key.size(1))]));
    check_alike({softmax}, {w}, 1e-10);
  });
  BOOST_TEST(methods > 250);
}

BOOST_AUTO_TEST_CASE(every_engine_computes_the_same) {
  for_each(all_specifications(), [](Attention& attention, Place place) {
    for (const Sizes& sizes : all_sizes) {
      const AttentionInput input = random_input(place, sizes);
      auto run = [&](AttentionEngine engine) {
        AttentionEngineScope chosen(engine, 7);
        return rows_of(attention, input);
      };
      const std::vector<Numbers> composed = run(AttentionEngine::composed);
      check_alike(run(AttentionEngine::blockwise), composed, 1e-10);
      check_alike(run(AttentionEngine::fastest), composed, 1e-10);
    }
  });
}

// Queries of which no head sees a key: the fourth one in random_input(), and those of a sentence without keys.
BOOST_AUTO_TEST_CASE(a_query_that_sees_no_key_has_no_largest_key) {
  for_each(all_specifications(), [](Attention& attention, Place place) {
    const Sizes& sizes = all_sizes[1];
    const AttentionInput input = random_input(place, sizes);
    const Plan plan = plan_of(attention, input);
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest}) {
      AttentionEngineScope chosen(engine);
      const std::vector<Numbers> rows = rows_of(attention, input);
      const std::size_t I = static_cast<std::size_t>(input.query.size(1)),
                        heads = static_cast<std::size_t>(attention.heads()),
                        dimensions = rows[0].size() / (3 * heads * I);
      for (std::size_t r = 0; r < rows[0].size(); ++r) {
        const std::size_t i = r / dimensions % I, sentence = r / dimensions / I / heads;
        if (sentence != 1 && i % 5 != 3) continue;
        const bool has_more_keys = plan.sink.defined() || !plan.extra_keys.empty();
        BOOST_TEST((rows[0][r] == -infinity && rows[1][r] == -1 && rows[3][r] == 0), "query " << i);
        BOOST_TEST((rows[2][r] == -infinity || has_more_keys), "query " << i << ": " << rows[2][r]);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(there_may_be_no_keys) {
  for (const char* specification : {"global", "sinks(logit=true)", "persistent(vectors=2)", "fine_grained", "window"}) {
    auto attention = random_attention(specification, Place::cross);
    Generator generator(3);
    const Variable query(random_tensor({2, 3, 6}, generator)), key(random_tensor({2, 0, 6}, generator));
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest}) {
      AttentionEngineScope chosen(engine, 2);
      const std::vector<Numbers> rows = rows_of(*attention, {.query = query, .key = key, .value = key});
      BOOST_TEST(std::ranges::count(rows[1], -1) == static_cast<std::ptrdiff_t>(rows[0].size()), specification);
      BOOST_TEST(std::ranges::count(rows[3], 0) == static_cast<std::ptrdiff_t>(rows[0].size()), specification);
      BOOST_TEST(rows[4].empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_of_mixers_have_the_entropy_and_mass_of_their_weights_alone) {
  auto attention = random_attention("heads(linear*1, global*1)", Place::encoder);
  AttentionInput input = random_input(Place::encoder, {1, 5, 5, {5}});
  const std::vector<Numbers> rows = rows_of(*attention, input);
  AttentionTrace trace;
  input.trace = &trace;
  attention->forward(input);
  const Numbers weights = trace.weights.value().to_vector<double>(),
                expected = plain_rows(Numbers(50, -infinity), weights, 5).entropy;
  for (std::size_t i = 0; i < 10; ++i) {
    BOOST_TEST((rows[0][i] == -infinity) == (i < 5 || i == 8));
    BOOST_TEST((rows[1][i] == -1) == (i < 5 || i == 8));
    BOOST_TEST((rows[2][i] == -infinity) == (i < 5 || i == 8));
    BOOST_TEST(std::abs(rows[3][i] - (std::isnan(expected[i]) ? 0 : expected[i])) < 1e-12);
  }
  check_alike({rows[4]}, {sum(trace.weights, {2}).value().to_vector<double>()}, 1e-12);
}

// Also the result is that of a call without a trace, bit for bit.
BOOST_AUTO_TEST_CASE(dropout_changes_the_result_only) {
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
    AttentionEngineScope chosen(engine, 7);
    auto attention = attention_factory("gaussian")({.model_dim = 6, .heads = 2, .dropout = 0.5});
    attention->initialise(4);
    attention->to(DType::f64);
    const AttentionInput input = random_input(Place::encoder, all_sizes[1]);
    const auto run = [&](bool drops) {
      attention->train(drops);
      RandomScope random({.seed = 5});
      return rows_of(*attention, input);
    };
    const std::vector<Numbers> dropped = run(true), kept = run(false);
    for (std::size_t k = 0; k < 5; ++k) BOOST_TEST(dropped[k] == kept[k]);
    BOOST_TEST(dropped[5] != kept[5]);
    BOOST_TEST(kept[5] == attention->forward(input).value().to_vector<double>());
  }
}

BOOST_AUTO_TEST_CASE(numbers_in_f32_are_near) {
  for_each({"global", "gaussian+sinks(logit=true)", "window", "fine_grained", "general+flexible", "mean", "sparsemax"},
           [](Attention& attention, Place place) {
             const std::vector<Numbers> exact = rows_of(attention, random_input(place, all_sizes[2]));
             attention.to(DType::f32);
             for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::fastest}) {
               AttentionEngineScope chosen(engine);
               check_alike(rows_of(attention, random_input(place, all_sizes[2], DType::f32)), exact, 2e-4);
             }
           });
}

BOOST_AUTO_TEST_CASE(states_that_no_query_sees_change_nothing) {
  const double nan = std::nan("");
  for (const char* specification : {"global", "window+gaussian", "average(multi_head(global), multi_head(alibi))"}) {
    auto attention = random_attention(specification, Place::cross);
    AttentionInput input = random_input(Place::cross, {2, 6, 9, {9, 5}});
    const auto run = [&](double padding) {
      Tensor key = input.key.value().clone();
      key.select(0, 1).slice(0, 5, 9).fill(padding);
      input.key = input.value = Variable(key);
      return rows_of(*attention, input);
    };
    const std::vector<Numbers> clean = run(0), hidden = run(nan);
    for (std::size_t k = 0; k < clean.size(); ++k) BOOST_TEST(hidden[k] == clean[k]);
  }
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_no_bit) {
  const int before = omp_get_max_threads();
  for (const char* specification : {"global", "gaussian", "window", "fine_grained", "sliding(left=9,right=2)+sinks"}) {
    auto attention = random_attention(specification, Place::encoder);
    for (const Sizes& sizes : {Sizes{1, 300, 300, {281}}, Sizes{40, 7, 7, std::vector<std::int32_t>(40, 6)}}) {
      const AttentionInput input = random_input(Place::encoder, sizes);
      for (AttentionEngine engine : {AttentionEngine::blockwise, AttentionEngine::fused}) {
        AttentionEngineScope chosen(engine);
        omp_set_num_threads(3);
        const std::vector<Numbers> three = rows_of(*attention, input);
        omp_set_num_threads(1);
        BOOST_TEST((rows_of(*attention, input) == three), specification);
      }
    }
  }
  omp_set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(memory_is_linear_in_the_number_of_positions) {
  const int before_test = omp_get_max_threads();
  omp_set_num_threads(1);  // with several threads, the number of strips in memory at one time varies from run to run
  for (const auto& [specification, engine] :
       {std::pair("global", AttentionEngine::fused), std::pair("gaussian", AttentionEngine::fused),
        std::pair("window", AttentionEngine::fused), std::pair("general+flexible", AttentionEngine::fused),
        std::pair("sliding(left=9)+sinks", AttentionEngine::fused), std::pair("fine_grained", AttentionEngine::fused),
        std::pair("talking_heads", AttentionEngine::blockwise),
        std::pair("differential", AttentionEngine::blockwise)}) {
    auto attention = random_attention(specification, Place::cross);
    AttentionEngineScope chosen(engine, 2);
    const auto peak_bytes = [&](std::int64_t positions) {
      Generator generator(8);
      const Variable x(random_tensor({1, positions, 6}, generator)), y(random_tensor({1, positions, 6}, generator));
      RowQuantities rows;
      AttentionTrace trace;
      trace.rows = &rows;
      const std::size_t before = allocator_statistics().bytes_in_use;
      reset_peak();
      attention->forward({.query = x, .key = y, .value = y, .trace = &trace});
      return static_cast<double>(allocator_statistics().peak_bytes - before);
    };
    const double few = peak_bytes(500), many = peak_bytes(1500);  // a matrix of all pairs would be 9 times as large
    BOOST_TEST(many < 4 * few, fmt::format("{}: {} bytes for 500 positions, {} for 1500", specification, few, many));
  }
  omp_set_num_threads(before_test);
}

/// Checks the row quantities of a GPU, and returns whether its kernels compute them.
bool check_on_a_gpu(Attention& attention, Place place, const Sizes& sizes) {
  attention.to(Device::cpu);
  const std::vector<Numbers> expected = rows_of(attention, random_input(place, sizes));
  attention.to(Device::cuda);
  const AttentionInput input = random_input(place, sizes, DType::f64, Device::cuda);
  check_alike(rows_of(attention, input), expected, 1e-10);
  AttentionEngineScope fused(AttentionEngine::fused);
  return message_of([&] { rows_of(attention, input); }) == "no error";
}

// Calls for which a GPU has no kernels run composed or blockwise.
BOOST_AUTO_TEST_CASE(on_a_gpu_they_are_those_of_the_cpu, *with_cuda()) {
  int fused = 0;
  for_each(all_specifications(), [&](Attention& attention, Place place) {
    fused += check_on_a_gpu(attention, place, {2, 5, 9, {9, 0}});
  });
  BOOST_TEST(fused > 150);
  // several tiles of keys and queries
  for_each({"gaussian+persistent(vectors=3)", "sliding(left=9,right=4)+sinks(logit=true)", "relative(clip=3)",
            "adaptive_span(after_softmax=true)", "local_p(renormalize=true)"},
           [](Attention& attention, Place place) {
             BOOST_TEST(check_on_a_gpu(attention, place, {1, 130, 141, {137}}));
           });
}

BOOST_AUTO_TEST_CASE(collected_calls_of_a_gpu_trace_them_too) {
  const auto attention = random_attention("gaussian", Place::encoder);
  AttentionInput input = random_input(Place::encoder, {2, 3, 3, {3, 2}}, DType::f64, Device::cpu);
  for (bool traces : {false, true}) {
    RowQuantities rows;
    AttentionTrace trace;
    if (traces) trace.rows = &rows;
    input.trace = &trace;
    CollectedTileCalls collected;
    attention->forward(input);
    BOOST_REQUIRE(collected.of_attend.size() == 1u);
    for (const TileCall& call : collected.of_attend[0].calls) BOOST_TEST(call.traces_rows == traces);
  }
}

BOOST_AUTO_TEST_CASE(on_a_gpu_queries_whose_logits_are_nan_do_not_look_like_those_without_keys, *with_cuda()) {
  for (Device device : {Device::cpu, Device::cuda}) {
    const auto attention = random_attention("flexible", Place::cross);
    attention->to(device);
    AttentionInput input = random_input(Place::cross, {2, 3, 4, {4, 3}}, DType::f64, device);
    input.allowed = {};
    input.previous_focus = Variable(Tensor::of({std::nan(""), 1.5}, {2, 1}).to(device));
    const std::vector<Numbers> rows = rows_of(*attention, input);
    for (std::size_t member : {2, 3})  // logsumexp and entropy, [2, 2, 3]: the first sentence's are NaN
      for (std::size_t k = 0; k < rows[member].size(); ++k) BOOST_TEST(std::isnan(rows[member][k]) == (k < 6));
  }
}

BOOST_AUTO_TEST_CASE(blocks_on_a_gpu_give_those_of_the_cpu, *with_cuda()) {
  for_each({"gaussian+sinks(logit=true)", "fine_grained", "general+flexible", "talking_heads"}, [](Attention& attention,
                                                                                                   Place place) {
    const std::vector<Numbers> expected = rows_of(attention, random_input(place, {2, 6, 9, {9, 5}}));
    attention.to(Device::cuda);
    AttentionEngineScope chosen(AttentionEngine::blockwise, 4);
    check_alike(rows_of(attention, random_input(place, {2, 6, 9, {9, 5}}, DType::f64, Device::cuda)), expected, 1e-10);
  });
}

BOOST_AUTO_TEST_SUITE_END()
