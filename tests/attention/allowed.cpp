// AttentionInput::allowed, for every method: hiding a key from all queries is the same as leaving it out.
#include <algorithm>
#include <cmath>
#include <map>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, J = 6, d = 6;

Tensor bools(const std::vector<std::uint8_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

double largest_difference(const Variable& a, const Variable& b) {
  std::vector<double> x = a.value().to_vector<double>(), y = b.value().to_vector<double>();
  BOOST_REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double difference = std::abs(x[k] - y[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest;
}

AttentionInput input_of(const Variable& query, const Variable& key, bool causal) {
  return {.query = query, .key = key, .value = key, .mask = test_mask(query.size(1), key.size(1)), .causal = causal};
}

/// Runs body on every specification in every place where it is defined, with each engine that can compute it.
template <class Body>
void for_every_engine(const Body& body) {
  for (const std::string& specification : all_specifications())
    for (Place place : all_places())
      for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
        AttentionEngineScope chosen(engine, 3);
        std::unique_ptr<Attention> attention;
        try {
          attention = random_attention(specification, place);
          Generator generator(1);
          const Variable x(random_tensor({1, 3, d}, generator));
          attention->forward(input_of(x, x, place == Place::decoder));
        } catch (const Error&) {
          continue;
        }
        BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place) << ", engine "
                                         << static_cast<int>(engine)) {
          body(*attention, specification, place);
        }
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(allowed_keys_of_a_call)

// A mask that hides the last two of six keys, compared with lengths of four. Methods whose equations contain the number
// of keys are left out: they count six keys with the mask, but four with the lengths.
BOOST_AUTO_TEST_CASE(hiding_the_last_keys_is_leaving_them_out) {
  for (const char* specification : {"global",
                                    "sliding(left=1,right=1)",
                                    "sliding(left=1,right=0)+sinks(tokens=1)",
                                    "sinks(logit=true)",
                                    "dman(clip=2)",
                                    "relative(clip=2)",
                                    "alibi",
                                    "t5(buckets=4,max_distance=3)",
                                    "rotary",
                                    "classic(additive(hidden=2))",
                                    "classic(dot)",
                                    "general+soft_cap",
                                    "mean",
                                    "laplace",
                                    "fine_grained(hidden=2)",
                                    "persistent(vectors=2)",
                                    "linear",
                                    "heads(linear*1, global*1)",
                                    "average(dot, multi_head(relative(clip=2)))",
                                    "light_convolution(width=3)",
                                    "adaptive_span(ramp=2,longest=3)",
                                    "forgetting",
                                    "cope(longest=2)"})
    for (Place place : all_places())
      for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::fastest}) {
        AttentionEngineScope chosen(engine);
        std::unique_ptr<Attention> attention;
        try {
          attention = random_attention(specification, place);
        } catch (const Error&) {
          continue;
        }
        const bool causal = place == Place::decoder;
        Generator generator(51);
        const Tensor states = random_tensor({B, J, d}, generator);
        Variable key(states, true), query = place == Place::cross ? Variable(random_tensor({B, 4, d}, generator)) : key;
        AttentionInput hidden = input_of(query, key, causal);
        if (attention->heads() != 2) hidden.mask = Variable();
        AttentionInput shorter = hidden;
        hidden.allowed = bools({1, 1, 1, 1, 0, 0}, {1, 1, 1, J});
        shorter.key_lengths = Tensor::from(std::vector<std::int32_t>{4, 4}, {2});
        BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) {
          const Variable a = attention->forward(hidden), b = attention->forward(shorter);
          BOOST_TEST(largest_difference(a, b) < 1e-12);
          const Variable cotangent = random_tensor(a.shape(), generator);
          BOOST_TEST(largest_difference(grad(a, {key}, cotangent)[0], grad(b, {key}, cotangent)[0]) < 1e-11);
        }
      }
}

// Replacing the states of hidden keys by other numbers changes no output, also for methods whose lengths count hidden
// keys, such as gaussian. The exceptions read all keys before weights are computed: the pointers of window and the mean
// key of gaussian(window=layer).
BOOST_AUTO_TEST_CASE(the_states_of_hidden_keys_change_nothing) {
  for_every_engine([](Attention& attention, const std::string& specification, Place place) {
    if (place != Place::cross) return;
    const bool reads_all_keys =
        std::ranges::any_of(std::vector<std::string>{"window(", "+window", "*1, window", "+ window", "window=layer"},
                            [&](const std::string& part) { return specification.find(part) != std::string::npos; });
    if (reads_all_keys || specification == "window") return;
    Generator generator(55);
    const Tensor query = random_tensor({B, 4, d}, generator), key = random_tensor({B, J, d}, generator);
    Tensor changed = key.clone();
    changed.slice(1, 1, 3).copy_from(random_tensor({B, 2, d}, generator, 5, 9));
    AttentionInput one = input_of(query, key, false), two = input_of(query, changed, false);
    one.allowed = two.allowed = bools({1, 0, 0, 1, 1, 1}, {1, 1, 1, J});
    BOOST_TEST(largest_difference(attention.forward(one), attention.forward(two)) < 1e-12);
  });
}

// The mask is u8 with a random pattern for each sentence, head, query and key. Hidden keys have weights of exactly 0.
// The output for a query that sees no key is 0, and it has no gradient.
BOOST_AUTO_TEST_CASE(a_hidden_key_has_no_weight) {
  for_every_engine([](Attention& attention, const std::string& specification, Place place) {
    Generator generator(52);
    const Variable key(random_tensor({B, J, d}, generator), true);
    // with mixed heads, a head may get weight for keys that only another head sees, so all heads hide the same keys
    const bool mixed = !plan_of(attention, input_of(key, key, place == Place::decoder)).mixings.empty();
    const std::int64_t heads = attention.heads();
    std::vector<std::uint8_t> pattern;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < J; ++i)
          for (std::int64_t j = 0; j < J; ++j)
            pattern.push_back(
                i == 4 ? 0 : static_cast<std::uint8_t>((3 * i + 5 * j + 2 * b + (mixed ? 0 : h)) % 4 != 1) * 3);
    AttentionTrace trace;
    AttentionInput input = input_of(key, key, place == Place::decoder);
    if (heads != 2) input.mask = input.mask.value().slice(1, 0, 1);
    input.allowed = bools(pattern, {B, heads, J, J});
    input.trace = &trace;
    const Variable out = attention.forward(input);
    BOOST_TEST(std::isfinite(sum(out).item()));
    const std::vector<double> weights = trace.weights.value().to_vector<double>();
    const std::size_t D = trace.weights.rank() == 5 ? static_cast<std::size_t>(trace.weights.size(4)) : 1;
    BOOST_REQUIRE(weights.size() == pattern.size() * D);
    double hidden = 0;
    for (std::size_t k = 0; k < weights.size(); ++k)
      if (!pattern[k / D]) hidden = std::max(hidden, std::abs(weights[k]));
    BOOST_TEST(hidden == 0);
    if (specification.find("persistent") != std::string::npos) return;
    for (auto& parameter : attention.parameters())
      if (parameter.name == "output.bias") {
        const Tensor row = out.value().slice(1, 4, 5);
        BOOST_TEST(largest_difference(row, parameter.variable.value().expand(row.shape()).contiguous()) < 1e-15);
        BOOST_TEST(std::isfinite(sum(grad(sum(square(out)), {key})[0]).item()));
      }
  });
}

BOOST_AUTO_TEST_CASE(an_allowed_mask_of_a_wrong_shape_or_type_is_an_error_of_one_line) {
  for (const char* specification : {"global", "classic(additive)", "linear"}) {
    auto attention = random_attention(specification, Place::encoder);
    Generator generator(53);
    const Tensor x = random_tensor({B, J, d}, generator);
    AttentionInput input{.query = x, .key = x, .value = x};
    for (const Tensor& wrong : {Tensor::full({1, 1, 1, J}, 1, DType::f64), bools({1, 1, 1}, {1, 1, 1, 3}),
                                bools({1, 1, 1, 1, 1, 1}, {1, J})}) {
      input.allowed = wrong;
      BOOST_CHECK_EXCEPTION(attention->forward(input), Error, [](const Error& error) {
        const std::string text = error.what();
        return text.starts_with("attention: 'allowed' is ") &&
               text.find("expected bool or u8 [2, ") != std::string::npos;
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_method_without_pairs_combines_with_no_other_term_on_its_heads) {
  for (const auto& [specification, named] :
       std::map<std::string, std::string>{{"linear+alibi", "alibi beside linear: "},
                                          {"sliding+linear", "linear beside sliding: "},
                                          {"light_convolution+sinks", "sinks beside light_convolution: "},
                                          {"alibi+relative+linear", "linear beside alibi, relative: "}}) {
    auto attention = random_attention(specification, Place::encoder);
    Generator generator(54);
    const Tensor x = random_tensor({B, J, d}, generator);
    BOOST_CHECK_EXCEPTION(
        attention->forward({.query = x, .key = x, .value = x}), Error, [&expected = named](const Error& error) {
          return error.what() == expected +
                                     "attention: a method without query-key pairs, such as linear, cannot be combined "
                                     "with other terms on a head; another method changes head 1";
        });
  }
}

BOOST_AUTO_TEST_SUITE_END()
