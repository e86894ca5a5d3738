// Identities between methods that follow from their equations, such as a method that equals plain attention for certain
// parameters. Results agree bit for bit where no rounding differs.
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <span>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/layers/multi_head.h"
#include "attention/methods/t5_bias.h"
#include "autograd/gradcheck.h"
#include "autograd/map.h"
#include "nn/layers.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/reduce.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, J = 5, d = 6;

void set(Attention& attention, const std::string& name, const Tensor& value) {
  for (auto& parameter : attention.parameters())
    if (parameter.name == name) {
      Tensor to = parameter.variable.value();
      to.copy_from(value);
      return;
    }
  BOOST_FAIL("no parameter " << name);
}

void fill(Attention& attention, const std::string& name, double value) {
  set(attention, name, Tensor::full({1}, value, DType::f64));
}

/// An attention with the parameters of `other` where they have the same names, random elsewhere.
std::unique_ptr<Attention> sharing(const std::string& specification, Place place, Attention& other) {
  auto attention = random_attention(specification, place, 77);
  for (auto& parameter : attention->parameters())
    for (auto& shared : other.parameters())
      if (parameter.name == shared.name) {
        Tensor to = parameter.variable.value();
        to.copy_from(shared.variable.value());
      }
  return attention;
}

/// Inputs for every place: two sentences of five and three words; four queries in cross-attention.
AttentionInput input_at(Place place, const Tensor& mask = {}) {
  Generator generator(21);
  Tensor key = random_tensor({B, J, d}, generator);
  Tensor query = place == Place::cross ? random_tensor({B, 4, d}, generator) : key;
  return {.query = query,
          .key = key,
          .value = key,
          .key_lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {2}),
          .mask = mask,
          .causal = place == Place::decoder};
}

std::vector<double> values(const Variable& x) { return x.value().to_vector<double>(); }

double largest_difference(const Variable& a, const Variable& b) {
  std::vector<double> x = values(a), y = values(b);
  BOOST_REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    double difference = std::abs(x[k] - y[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest;
}

using Change = void (*)(Attention&);

/// Checks that the specification, with its parameters changed by `change`, gives the output of plain attention to
/// `tolerance`, in every place where it is defined.
void check_plain(const std::string& specification, Change change, double tolerance, const Tensor& mask = {}) {
  for (Place place : all_places()) {
    if (place == Place::cross && specification.starts_with("relative")) continue;
    auto plain = random_attention("global", place);
    auto same = sharing(specification, place, *plain);
    change(*same);
    AttentionInput input = input_at(place, mask);
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::fused}) {
      AttentionEngineScope chosen(engine);
      double difference = largest_difference(plain->forward(input), same->forward(input));
      BOOST_TEST(difference <= tolerance, specification << " in place " << static_cast<int>(place) << " differs by "
                                                        << difference << " from plain attention");
    }
  }
}

void nothing(Attention&) {}

/// The weights [B, 2, I, J] of a specification, and those of plain attention with the same projections.
struct Pair {
  std::vector<double> plain, changed;
  std::int64_t I;
};
Pair weights_of(const std::string& specification, Place place, Change change = nothing) {
  auto plain = random_attention("global", place);
  auto other = sharing(specification, place, *plain);
  change(*other);
  AttentionTrace one, two;
  AttentionInput input = input_at(place);
  input.trace = &one;
  plain->forward(input);
  input.trace = &two;
  other->forward(input);
  return {values(one.weights), values(two.weights), one.weights.size(2)};
}

/// Checks that the changed weights are the plain weights times factor(h, i, j), divided by their sum.
void check_reweighted(const Pair& pair, const std::function<double(int h, std::int64_t i, std::int64_t j)>& factor) {
  for (std::size_t row = 0; row < pair.plain.size() / J; ++row) {
    int h = static_cast<int>(row / pair.I % 2);
    auto i = static_cast<std::int64_t>(row % pair.I);
    double total = 0;
    for (std::int64_t j = 0; j < J; ++j) total += pair.plain[row * J + j] * factor(h, i, j);
    for (std::int64_t j = 0; j < J; ++j) {
      double expected = total > 0 ? pair.plain[row * J + j] * factor(h, i, j) / total : 0;
      BOOST_TEST(std::abs(pair.changed[row * J + j] - expected) < 1e-12,
                 "row " << row << " key " << j << ": " << pair.changed[row * J + j] << ", expected " << expected);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(identities)

BOOST_AUTO_TEST_CASE(methods_without_effect_equal_plain_attention) {
  // bit for bit: no rounding differs
  check_plain("man", nothing, 0, Tensor::full({1, 1, 1, J}, 1, DType::f64));
  check_plain("sman(width=fixed,distance=5)", nothing, 0);
  check_plain("sliding(left=4,right=4)", nothing, 0);
  check_plain("sinks(tokens=2)", nothing, 0);
  check_plain("sliding(left=0,right=0)+sinks(tokens=5)", nothing, 0);
  check_plain(
      "adaptive_span(ramp=2,longest=100)", [](Attention& a) { fill(a, "adaptive_span.span", 3); }, 0);
  check_plain("adaptive_span(after_softmax=true)", nothing, 0);
  check_plain(
      "t5", [](Attention& a) { fill(a, "t5.bias", 0); }, 0);
  check_plain("activation(function=none)", nothing, 0);
  check_plain(
      "window(use=additive)",
      [](Attention& a) { fill(a, "window.local_query.weight", 0), fill(a, "window.local_query.bias", 0); }, 0);
  check_plain(
      "relative", [](Attention& a) { fill(a, "relative.key_table", 0), fill(a, "relative.value_table", 0); }, 0);
  // These agree only to a tolerance: plain attention is a limit of the method, or sums are taken in another order.
  check_plain(
      "sinks(logit=true)", [](Attention& a) { fill(a, "sinks.logit", -800); }, 1e-15);
  check_plain("gaussian(window=fixed,width=1e6)", nothing, 1e-9);
  check_plain("soft_cap(cap=1e6)", nothing, 1e-11);
  check_plain(
      "dman", [](Attention& a) { fill(a, "dman.head", 800); }, 1e-12);
  check_plain(
      "t5", [](Attention& a) { fill(a, "t5.bias", 3); }, 1e-14);
}

BOOST_AUTO_TEST_CASE(a_segment_of_all_keys_is_open_everywhere) {
  // m̂ = 2 at every real key, so the multiplicative window doubles the weights.
  for (Place place : all_places()) {
    Pair pair = weights_of("window(segment=5)", place);
    for (std::size_t k = 0; k < pair.plain.size(); ++k)
      BOOST_TEST(std::abs(pair.changed[k] - 2 * pair.plain[k]) < 1e-14);
  }
}

BOOST_AUTO_TEST_CASE(a_differentiable_window_lies_between_0_and_2) {
  for (const char* segment : {"1", "2", "3"}) {
    auto attention = random_attention("window(segment=" + std::string(segment) + ")", Place::encoder);
    AttentionTrace trace;
    AttentionInput input = input_at(Place::encoder);
    input.query = input.key = input.value = map(Affine{20, 0}, input.key.value());  // sharp pointers
    input.trace = &trace;
    attention->forward(input);
    for (const TracedQuantity& quantity : trace.quantities)
      if (quantity.name == "window")
        for (double m : values(quantity.value)) BOOST_TEST((-1e-15 <= m && m <= 2 + 1e-14));
  }
}

BOOST_AUTO_TEST_CASE(mask_attention_of_the_identity_is_the_feed_forward_block_bit_for_bit) {
  const std::int64_t inner = 10;
  FeedForward block(d, inner);
  block.to(DType::f64);
  auto attention = attention_factory("man+activation(function=relu,width=10)")({.model_dim = d, .heads = 1});
  attention->to(DType::f64);
  Generator generator(5);
  for (Module* module : {static_cast<Module*>(&block), static_cast<Module*>(attention.get())})
    for (auto& parameter : module->parameters()) {
      Tensor value = parameter.variable.value();
      value.copy_from(random_tensor(value.shape(), generator));
    }
  for (auto& parameter : block.parameters()) {
    bool first = parameter.name.starts_with("inner");
    set(*attention, (first ? "value" : "output") + parameter.name.substr(5), parameter.variable.value());
  }
  Tensor x = random_tensor({B, J, d}, generator), identity = Tensor::zeros({1, 1, J, J}, DType::f64);
  for (std::int64_t i = 0; i < J; ++i) identity.slice(2, i, i + 1).slice(3, i, i + 1).fill(1);
  Variable attended = attention->forward({.query = x, .key = x, .value = x, .mask = identity});
  BOOST_TEST(values(attended) == values(block.forward(x)), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_projected_result_is_reused_only_for_the_states_that_it_was_computed_from) {
  struct Method : LocalnessMethod {
    Linear of_query{d, 3}, of_key{d, 3}, of_both{d, 3};
    Method() {
      child("of_query", of_query);
      child("of_key", of_key);
      child("of_both", of_both);
    }
    void add_layers(StateLayers& layers) const override {
      layers.of_query = {&of_query, &of_both};
      layers.of_key = {&of_key, &of_both};
    }
    void add_terms(const AttentionContext&, Plan&) override {}
  };
  auto made = std::make_unique<Method>();
  const Method& method = *made;
  PlacedMethods methods;
  methods.push_back({std::move(made), "method", 0, 2});
  MultiHeadAttention attention({.model_dim = d, .heads = 2, .place = Place::cross}, std::move(methods));
  attention.to(DType::f64);
  Generator generator(9);
  for (auto& parameter : attention.parameters())
    Variable(parameter.variable).value().copy_from(random_tensor(parameter.variable.shape(), generator));
  Variable query = random_tensor({B, J, d}, generator), key = random_tensor({B, J, d}, generator);
  Variable value = random_tensor({B, J, d}, generator), other = random_tensor({B, J, d}, generator);
  AttentionContext in = attention.call({.query = query, .key = key, .value = value}).context;
  for (const Linear* layer : {&method.of_query, &method.of_key, &method.of_both})
    for (const Variable& states : {query, key, value, other})
      BOOST_TEST(values(in.project(*layer, states)) == values(layer->forward(states)),
                 boost::test_tools::tolerance(1e-12) << boost::test_tools::per_element());
  for (const auto& [layer, states] : {std::pair(&method.of_query, query), std::pair(&method.of_key, key)})
    BOOST_TEST(in.project(*layer, states).is_same(in.project(*layer, states)));
}

BOOST_AUTO_TEST_CASE(a_mask_has_its_gradient_and_none_where_it_is_0) {
  auto attention = random_attention("man", Place::decoder);
  Generator generator(6);
  AttentionInput input = input_at(Place::decoder);
  auto f = [&](const std::vector<Variable>& x) {
    input.mask = x[0];
    return attention->forward(input);
  };
  for (const Shape& shape : {Shape{2, 2, 5, 5}, Shape{1, 1, 5, 5}, Shape{2, 1, 1, 5}, Shape{1, 2, 1, 5}})
    BOOST_TEST(gradcheck(f, {Variable(random_tensor(shape, generator, 0.1, 0.9), true)}) == "");
  Variable mask(test_mask(5, 5), true);
  std::vector<double> gradient = values(grad(sum(square(f({mask}))), {mask})[0]), m = values(mask);
  for (std::size_t k = 0; k < m.size(); ++k)
    if (m[k] == 0) BOOST_TEST(gradient[k] == 0.0);
}

BOOST_AUTO_TEST_CASE(a_row_whose_mask_is_0_is_0_and_has_no_gradient) {
  for (const char* specification : {"man", "man+gaussian", "man+dman(clip=2)+window"}) {
    auto attention = random_attention(specification, Place::encoder);
    Tensor mask = Tensor::full({1, 1, J, J}, 0.5, DType::f64);
    mask.slice(2, 2, 3).fill(0);
    Variable M(mask, true), query(input_at(Place::encoder).key.value(), true), key(query.value().clone(), true);
    AttentionTrace trace;
    Variable out = attention->forward({.query = query, .key = key, .value = key, .mask = M, .trace = &trace});
    BOOST_TEST(maximum_over(trace.weights.value().slice(2, 2, 3)).item() == 0.0);
    Gradients gradients = grad(sum(square(out)), {query, M});
    BOOST_TEST(maximum_over(square(gradients[0]).value().slice(1, 2, 3)).item() == 0.0, specification);
    BOOST_TEST(maximum_over(square(gradients[1]).value().slice(2, 2, 3)).item() == 0.0, specification);
    BOOST_TEST(std::isfinite(sum(gradients[0]).item()));
  }
}

BOOST_AUTO_TEST_CASE(a_mask_of_a_wrong_shape_or_range_is_an_error) {
  auto attention = random_attention("man", Place::encoder);
  auto error_of = [&](const Tensor& mask) -> std::string {
    try {
      attention->forward(input_at(Place::encoder, mask));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(error_of({}) == "man: there is no mask; give one with the input, [B, H, I, J] with values in [0, 1]");
  BOOST_TEST(error_of(Tensor::full({1, 3, 5, 5}, 1, DType::f64)) ==
             "attention: the mask is [1, 3, 5, 5]; expected [2, 2, 5, 5], where all but the last may be 1");
  BOOST_TEST(error_of(Tensor::full({1, 1, 1, 5}, 1, DType::boolean)) == "");
  BOOST_TEST(error_of(Tensor::full({1, 1, 1, 5}, 1.5, DType::f64)) ==
             "man: the mask at [0, 0, 0, 0] of [1, 1, 1, 5] must be in [0, 1]");
}

BOOST_AUTO_TEST_CASE(biases_multiply_the_weights_by_their_exponential) {
  for (Place place : all_places()) {
    check_reweighted(weights_of("alibi", place), [](int h, std::int64_t i, std::int64_t j) {
      return std::exp(-std::exp2(-4.0 * (h + 1)) * static_cast<double>(std::abs(i - j)));
    });
    check_reweighted(weights_of("sliding(left=1,right=2)", place),
                     [](int, std::int64_t i, std::int64_t j) { return i - 1 <= j && j <= i + 2 ? 1 : 0; });
    check_reweighted(weights_of("sliding(left=1,right=0)+sinks(tokens=2)", place),
                     [](int, std::int64_t i, std::int64_t j) { return j < 2 || (i - 1 <= j && j <= i) ? 1 : 0; });
    check_reweighted(
        weights_of("sliding(left=1,right=0,heads=2)+sinks(tokens=1)", place),
        [](int h, std::int64_t i, std::int64_t j) { return h == 0 || j < 1 || (i - 1 <= j && j <= i) ? 1 : 0; });
    // reach 2 + 3 sigmoid(0) = 3.5: the mask is 1 at distances 0 and 1, and on the ramp at 2 and 3
    auto span = [](Attention& a) { fill(a, "adaptive_span.span", 0); };
    auto ramp = [](int, std::int64_t i, std::int64_t j) {
      return std::clamp((3.5 - static_cast<double>(std::abs(i - j))) / 2, 0.0, 1.0);
    };
    check_reweighted(weights_of("adaptive_span(ramp=2,longest=3)", place, span), ramp);
    Pair after = weights_of("adaptive_span(ramp=2,longest=3,after_softmax=true)", place, span);
    for (std::size_t k = 0; k < after.plain.size(); ++k) {
      auto i = static_cast<std::int64_t>(k / J) % after.I, j = static_cast<std::int64_t>(k) % J;
      BOOST_TEST(std::abs(after.changed[k] - after.plain[k] * ramp(0, i, j)) < 1e-15);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_distance_of_sman_is_half_the_root_of_the_length) {
  auto attention = random_attention("sman", Place::encoder);
  Generator generator(8);
  for (auto [length, distance] : {std::pair{1, 0}, {3, 0}, {4, 1}, {15, 1}, {16, 2}, {20, 2}, {35, 2}, {36, 3}}) {
    Tensor x = random_tensor({1, 40, d}, generator);
    AttentionTrace trace;
    attention->forward({.query = x,
                        .key = x,
                        .value = x,
                        .key_lengths = Tensor::from(std::vector<std::int32_t>{length}, {1}),
                        .trace = &trace});
    std::vector<double> w = values(trace.weights);
    for (int j = 0; j < 40; ++j) BOOST_TEST((w[j] > 0) == (j <= distance && j < length));
  }
}

BOOST_AUTO_TEST_CASE(with_a_sink_the_weights_sum_to_less_than_1) {
  for (Place place : all_places()) {
    Pair pair = weights_of("sinks(logit=true)", place, [](Attention& a) {
      set(a, "sinks.logit", Tensor::of({0.3, -0.7}, {2}));
    });
    for (std::size_t row = 0; row < pair.plain.size() / J; ++row) {
      double kept = 0;
      for (std::int64_t j = 0; j < J; ++j) kept += pair.changed[row * J + j];
      BOOST_TEST((0 < kept && kept < 1));
      for (std::int64_t j = 0; j < J; ++j)
        BOOST_TEST(std::abs(pair.changed[row * J + j] - kept * pair.plain[row * J + j]) < 1e-14);
    }
  }
  // one key of logit 0 beside a sink of logit t: 1 / (exp(t) + 1).
  auto attention = random_attention("sinks(logit=true)", Place::encoder);
  fill(*attention, "query.weight", 0), fill(*attention, "query.bias", 0);
  set(*attention, "sinks.logit", Tensor::of({0.3, -0.7}, {2}));
  AttentionTrace trace;
  Tensor x = Tensor::full({1, 1, d}, 1, DType::f64);
  attention->forward({.query = x, .key = x, .value = x, .trace = &trace});
  BOOST_TEST(std::abs(values(trace.weights)[0] - 1 / (std::exp(0.3) + 1)) < 1e-15);
  BOOST_TEST(std::abs(values(trace.weights)[1] - 1 / (std::exp(-0.7) + 1)) < 1e-15);
}

BOOST_AUTO_TEST_CASE(two_sinks_on_one_head_are_an_error) {
  auto attention = random_attention("sinks(logit=true)+sinks(logit=true,heads=2)", Place::encoder);
  BOOST_CHECK_EXCEPTION(attention->forward(input_at(Place::encoder)), Error, [](const Error& error) {
    return std::string(error.what()).ends_with(": two methods give one head a sink logit each; a head can have one");
  });
}

BOOST_AUTO_TEST_CASE(a_soft_cap_bounds_the_scaled_score_before_the_biases) {
  // one key of score 6 / sqrt(3) beside a sink of logit 0; the bias is added to the bounded score
  auto attention = random_attention("t5+soft_cap(cap=2)+sinks(logit=true)", Place::encoder);
  for (const char* name : {"query.weight", "key.weight", "sinks.logit"}) fill(*attention, name, 0);
  fill(*attention, "query.bias", 1), fill(*attention, "key.bias", 2), fill(*attention, "t5.bias", 0.25);
  AttentionTrace trace;
  Tensor x = Tensor::full({1, 1, d}, 1, DType::f64);
  attention->forward({.query = x, .key = x, .value = x, .trace = &trace});
  double z = 2 * std::tanh(6 / std::sqrt(3.0) / 2) + 0.25;
  BOOST_TEST(std::abs(values(trace.weights)[0] - 1 / (std::exp(-z) + 1)) < 1e-14);
}

BOOST_AUTO_TEST_CASE(rotary_scores_depend_on_the_distance_only) {
  // The same words at other positions of the sequence: all queries and keys are shifted by the same distance.
  for (const char* specification : {"rotary", "rotary(pairs=halves)", "rotary(base=100)"}) {
    auto attention = random_attention(specification, Place::decoder);
    Generator generator(10);
    Tensor words = random_tensor({1, 4, d}, generator), early = random_tensor({1, 3, d}, generator);
    Tensor moved = Tensor::empty({1, 7, d}, DType::f64);
    moved.slice(1, 0, 3).copy_from(early);
    moved.slice(1, 3, 7).copy_from(words);
    AttentionTrace at_0, at_3;
    attention->forward({.query = words, .key = words, .value = words, .causal = true, .trace = &at_0});
    attention->forward(
        {.query = words, .key = moved, .value = moved, .causal = true, .query_offset = 3, .trace = &at_3});
    for (std::int64_t i = 0; i < 4; ++i) {
      auto row = [&](const AttentionTrace& trace, std::int64_t first) {
        return trace.weights.value().select(1, 1).select(1, i).slice(1, first, first + i + 1).to_vector<double>();
      };
      std::vector<double> a = row(at_0, 0), b = row(at_3, 3);
      for (std::size_t j = 0; j < a.size(); ++j) BOOST_TEST(std::abs(a[j] / a[0] - b[j] / b[0]) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rotary_pair_rotates_by_its_angle) {
  // q = (1, 0) in each pair at position 2, k = (1, 0) at 0: q · k = Σ_p cos(2 base^(−2 p / D)) over the pairs p, D = 4.
  auto attention = attention_factory("rotary(base=100)+sinks(logit=true)")({.model_dim = 4, .heads = 1});
  attention->to(DType::f64);
  for (auto& parameter : attention->parameters()) fill(*attention, parameter.name, 0);
  for (const char* name : {"query.bias", "key.bias"}) set(*attention, name, Tensor::of({1, 0, 1, 0}, {4}));
  AttentionTrace trace;
  Tensor query = Tensor::full({1, 1, 4}, 1, DType::f64);
  attention->forward({.query = query, .key = query, .value = query, .query_offset = 2, .trace = &trace});
  double s = (std::cos(2.0) + std::cos(2.0 / 10)) / 2;
  BOOST_TEST(std::abs(values(trace.weights)[0] - 1 / (std::exp(-s) + 1)) < 1e-14);
}

BOOST_AUTO_TEST_CASE(rotary_rotates_every_pair_of_every_head) {
  // Queries and keys are the states themselves; the expected rotation multiplies complex numbers.
  const std::int64_t T = 5, D = 4;
  for (bool halves : {false, true}) {
    auto attention = attention_factory(halves ? "rotary(pairs=halves)" : "rotary")({.model_dim = 2 * D, .heads = 2});
    attention->to(DType::f64);
    for (auto& parameter : attention->parameters()) fill(*attention, parameter.name, 0);
    Tensor identity = Tensor::zeros({2 * D, 2 * D}, DType::f64);
    for (std::int64_t c = 0; c < 2 * D; ++c) identity.mutable_data<double>()[c * 2 * D + c] = 1;
    for (const char* name : {"query.weight", "key.weight"}) set(*attention, name, identity);
    Generator generator(12);
    Tensor x = random_tensor({1, T, 2 * D}, generator);
    AttentionTrace trace;
    attention->forward({.query = x, .key = x, .value = x, .trace = &trace});
    std::vector<double> states = x.to_vector<double>(), weights = values(trace.weights);
    auto pair = [&](std::int64_t t, std::int64_t h, std::int64_t k) {
      const double* row = states.data() + t * 2 * D + h * D;
      std::complex<double> z(row[halves ? k : 2 * k], row[halves ? k + D / 2 : 2 * k + 1]);
      return z * std::polar(1.0, static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(k) / D));
    };
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < T; ++i) {
        std::vector<double> e(T, 0);
        double total = 0;
        for (std::int64_t j = 0; j < T; ++j) {
          for (std::int64_t k = 0; k < D / 2; ++k) e[j] += std::real(pair(i, h, k) * std::conj(pair(j, h, k))) / 2;
          total += e[j] = std::exp(e[j]);
        }
        for (std::int64_t j = 0; j < T; ++j) BOOST_TEST(std::abs(weights[(h * T + i) * T + j] - e[j] / total) < 1e-13);
      }
  }
}

BOOST_AUTO_TEST_CASE(learned_tables_are_read_by_head_and_side) {
  for (Place place : all_places()) {
    auto t5 = random_attention("t5(buckets=8,max_distance=6)", place, 77);
    std::vector<double> b;
    for (auto& parameter : t5->parameters())
      if (parameter.name == "t5.bias") b = values(parameter.variable);
    check_reweighted(weights_of("t5(buckets=8,max_distance=6)", place), [&](int h, std::int64_t i, std::int64_t j) {
      return std::exp(b[static_cast<std::size_t>(t5_bucket(j - i, place == Place::decoder, 8, 6) * 2 + h)]);
    });

    auto dman = random_attention("dman(clip=2)", place, 77);
    std::map<std::string, std::vector<double>> p;
    for (auto& parameter : dman->parameters()) p[parameter.name] = values(parameter.variable);
    Pair pair = weights_of("dman(clip=2)", place);
    std::vector<double> states = values(input_at(place).query);
    std::size_t half = pair.plain.size() / 2;
    for (std::int64_t b : {0, 1}) {
      auto part = [&](const std::vector<double>& all) {
        return std::vector<double>(all.begin() + b * half, all.begin() + (b + 1) * half);
      };
      check_reweighted({part(pair.plain), part(pair.changed), pair.I}, [&](int h, std::int64_t i, std::int64_t j) {
        double logit = p["dman.head"][h];
        for (std::int64_t c = 0; c < d; ++c) logit += states[(b * pair.I + i) * d + c] * p["dman.weight"][c];
        std::int64_t distance = std::min<std::int64_t>(std::abs(i - j), 2);
        if (distance > 0) logit += p[j < i ? "dman.left" : "dman.right"][distance - 1];
        return 1 / (1 + std::exp(-logit));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(distances_fall_into_the_buckets_of_t5) {
  // The first distance of each bucket, from an independent program for 32 buckets and max_distance = 128.
  const std::int64_t two_sided[]{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  const std::int64_t one_sided[]{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (std::int64_t distance = 0; distance < 200; ++distance) {
    auto bucket = [&](std::span<const std::int64_t> begins) {
      return std::upper_bound(begins.begin(), begins.end(), distance) - begins.begin() - 1;
    };
    BOOST_TEST(t5_bucket(-distance, false, 32, 128) == bucket(two_sided));
    if (distance > 0) BOOST_TEST(t5_bucket(distance, false, 32, 128) == 16 + bucket(two_sided));
    BOOST_TEST(t5_bucket(-distance, true, 32, 128) == bucket(one_sided));
    BOOST_TEST(t5_bucket(distance, true, 32, 128) == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
