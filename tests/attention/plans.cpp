// Every engine refuses the same mistakes of a plan's author with the same message.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "attention/engine/check_plan.h"
#include "attention/engine/maps_of_weights.h"
#include "attention/registry.h"
#include "tests/attention/attentions.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, H = 3, I = 4, J = 6, D = 5, Dv = 7;

/// z + b
struct Plus {
  static constexpr const char* name = "plus";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T b) const {
    return z + b;
  }
};

Tensor numbers(const Shape& shape, DType dtype = DType::f64) {
  Generator generator(5);
  return random_tensor(shape, generator).to(dtype);
}

AttentionContext context() {
  AttentionContext in;
  in.query = numbers({B, H, I, D});
  in.key = numbers({B, H, J, D});
  in.value = numbers({B, H, J, Dv});
  in.visible = {Tensor::zeros({1, 1, 1}, DType::i32), Tensor::full({1}, J, DType::i32)};
  in.query_positions = Tensor::arange(I, DType::f64);
  in.key_positions = Tensor::arange(J, DType::f64);
  return in;
}

const std::vector<AttentionEngine> engines{AttentionEngine::composed, AttentionEngine::blockwise,
                                           AttentionEngine::fused, AttentionEngine::fastest};

/// Checks that every engine refuses the plan with this message.
void refused(const Plan& plan, const std::string& message, const AttentionContext& in = context()) {
  for (AttentionEngine engine : engines) {
    AttentionEngineScope scope(engine);
    BOOST_TEST(message_of([&] { attend(in, plan, 0, nullptr); }) == message);
  }
}

Plan with_bias(PairTerm term) {
  Plan plan;
  plan.biases.push_back(std::move(term));
  return plan;
}
template <class Member, class Part>
Plan with(Member member, Part part) {
  Plan plan;
  (plan.*member).push_back(std::move(part));
  return plan;
}

/// w (1 + b w), which is no factor of the weight, and w b, which is one.
struct SelfWeighted {
  static constexpr const char* name = "self_weighted";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T>, T b) const {
    return w * (T(1) + b * w);
  }
};
struct Weighted {
  static constexpr const char* name = "weighted";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T>, T b) const {
    return w * b;
  }
};

class NoMixer : public PairlessMixer {
 public:
  Variable output(const AttentionContext& in, const Captured&) const override { return in.query; }
  Variable weights(const AttentionContext&, const Captured&) const override { return {}; }
};
struct Halves : CustomTerm {
  Variable composed(const Variable& pairs, const AttentionContext&, const Captured&) const override {
    return slice(pairs, -1, 0, 3);
  }
};
struct SecondCapture : CustomTerm {
  Variable composed(const Variable& pairs, const AttentionContext&, const Captured& captured) const override {
    return pairs * captured[1];
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(plans)

BOOST_AUTO_TEST_CASE(queries_keys_and_values_must_fit_each_other) {
  AttentionContext in = context();
  in.key = numbers({B, H, J, 4});
  refused({},
          "attention: queries are f64 [2, 3, 4, 5] and keys f64 [2, 3, 6, 4]; their product, the score of heads for "
          "which no method sets one, needs equal widths",
          in);
  in = context();
  in.value = numbers({B, H, 5, Dv});
  refused({},
          "attention: queries are f64 [2, 3, 4, 5], keys f64 [2, 3, 6, 5] and values f64 [2, 3, 5, 7]; expected [B, H, "
          "I, D], [B, H, J, D] and [B, H, J, Dv]",
          in);
  in = context();
  in.value = numbers({B, H, J, Dv}, DType::f32);
  refused({}, "attention: context: 'value' is f32 [2, 3, 6, 7]; it must be f64, as the queries are", in);
}

BOOST_AUTO_TEST_CASE(captures_must_have_their_shapes) {
  refused(with_bias(pointwise(Plus{}, PerHead{numbers({2})})),
          "attention: bias 1 ('plus'): capture 1 (PerHead) is f64 [2]; it must broadcast to [3]");
  refused(with_bias(pointwise(Plus{}, PerHead{numbers({B, H})})),
          "attention: bias 1 ('plus'): capture 1 (PerHead) is f64 [2, 3]; it must broadcast to [3]");
  refused(with_bias(pointwise(Plus{}, PerQuery{numbers({3})})),
          "attention: bias 1 ('plus'): capture 1 (PerQuery) is f64 [3]; it must broadcast to [2, 3, 4]");
  refused(with_bias(pointwise(Plus{}, PerKey{numbers({B, H, I})})),
          "attention: bias 1 ('plus'): capture 1 (PerKey) is f64 [2, 3, 4]; it must broadcast to [2, 3, 6]");
  refused(with_bias(pointwise(Plus{}, PerPair{numbers({1, 1, 2, I, J})})),
          "attention: bias 1 ('plus'): capture 1 (PerPair) is f64 [1, 1, 2, 4, 6]; it must broadcast to [2, 3, 4, 6]");
  for (const auto& [table, found] : {std::pair(numbers({1}), "f64 [1]"), std::pair(numbers({}), "f64 []"),
                                     std::pair(numbers({8}), "f64 [8]"), std::pair(numbers({2, 7}), "f64 [2, 7]")})
    refused(
        with_bias(pointwise(Plus{}, PerOffset{table, 3})),
        fmt::format("attention: bias 1 ('plus'): capture 1 (PerOffset) with the clip 3 is {}; it must be [7] (2 clip "
                    "+ 1) or broadcast to [2, 3, 4, 7] without changing the last dimension",
                    found));
  refused(with_bias(pointwise(Plus{}, PerOffset{numbers({1}), -1})),
          "attention: bias 1 ('plus'): capture 1 (PerOffset) has the clip -1; it must be in 0 to 1099511627776");
  refused(with_bias(pointwise(Plus{}, PerHead{Variable()})),
          "attention: bias 1 ('plus'): capture 1 (PerHead) is undefined; it must broadcast to [3]");
  refused(with_bias(pointwise(Plus{}, PerKey{numbers({J}, DType::f32)})),
          "attention: bias 1 ('plus'): capture 1 (PerKey) is f32 [6]; it must be f64, as the queries are");
  PairTerm term = pointwise(Plus{}, PerHead{numbers({H})});
  term.captures.clear();
  refused(with_bias(term), "attention: bias 1 ('plus') has 0 captures; it reads 1");
  term.captures = {PerKey{numbers({B, H, J})}};  // crashed
  refused(with_bias(term),
          "attention: bias 1 ('plus'): capture 1 (PerKey) does not fit the formula, which was made for a number for "
          "each head or query");
  PairTerm of_keys = pointwise(Plus{}, PerPair{numbers({B, H, I, J})});
  of_keys.captures = {PerQuery{numbers({B, H, I})}};
  refused(with_bias(of_keys),
          "attention: bias 1 ('plus'): capture 1 (PerQuery) does not fit the formula, which was made for a number for "
          "each key or pair");
  term.captures = {{Per::query_vector, numbers({B, H, I, D})}};
  refused(
      with_bias(term),
      "attention: bias 1 ('plus') reads a vector for each query; a formula reads PerHead, PerQuery, PerKey, PerPair "
      "and PerOffset");
}

BOOST_AUTO_TEST_CASE(a_message_names_the_kind_and_the_number_of_a_part) {
  Plan plan = with_bias(pointwise(Plus{}, PerHead{numbers({H})}));
  plan.biases.push_back(pointwise(Plus{}, PerHead{numbers({2})}));
  refused(plan, "attention: bias 2 ('plus'): capture 1 (PerHead) is f64 [2]; it must broadcast to [3]");
  PairTerm term = pointwise(Plus{}, PerHead{numbers({2})});
  refused(with(&Plan::windows, term),
          "attention: window 1 ('plus'): capture 1 (PerHead) is f64 [2]; it must broadcast to [3]");
  term.heads = {1, 1};
  refused(with(&Plan::score_changes, term),
          "attention: score change 1 ('plus'): capture 1 (PerHead) is f64 [2]; it must broadcast to [1]");
}

BOOST_AUTO_TEST_CASE(weights_of_0_stay_0_and_logits_are_not_divided_by_their_sum) {
  refused(with(&Plan::windows, pointwise(Plus{}, PerHead{numbers({H})})),
          "attention: window 1 ('plus') turns a weight of 0 into 1; it must stay 0, because the query does not "
          "see its key");
  refused(with_bias({Renormalization{}}),
          "attention: bias 1 ('Renormalization') divides weights by their sum; add it to the windows of the plan");
}

BOOST_AUTO_TEST_CASE(heads_have_one_activation) {
  BOOST_TEST(message_of([] {
               attention_factory("activation + activation(function=gelu)")({.model_dim = 4, .heads = 2});
             }) == "activation: two methods set the function of the heads; an attention has one");
  BOOST_TEST(message_of([] {
               attention_factory("activation + activation(function=none)")({.model_dim = 4, .heads = 2});
             }) == "no error");
}

BOOST_AUTO_TEST_CASE(inputs_have_their_shapes_and_ranges) {
  auto refusal = [](const std::string& specification, const std::function<void(AttentionInput&)>& change) {
    auto attention = attention_factory(specification)({.model_dim = 4, .heads = 2});
    attention->initialise(1);
    const Variable x(numbers({2, 5, 4}, DType::f32));
    AttentionInput in{.query = x, .key = x, .value = x};
    change(in);
    return message_of([&] { attention->forward(in); });
  };
  BOOST_TEST(refusal("global", [](AttentionInput& in) {
               in.key_lengths = Tensor::full({2, 1}, 3, DType::i32);
             }) == "attention: the key lengths are i32 [2, 1]; expected one dimension, [B]");
  BOOST_TEST(refusal("global", [](AttentionInput& in) { in.query_offset = -1; }) ==
             "attention: the first query is at position -1 (query_offset); it must be in 0 to 16777216 in f32");
  BOOST_TEST(refusal("window(pointers=given)", [](AttentionInput& in) {
               in.right_pointer = Tensor::full({1, 1, 1}, 5, DType::i32);
             }) == "attention: the right_pointer at [0, 0, 0] of [1, 1, 1] is 5; it must be in 0 to 4");
  BOOST_TEST(refusal("relative_2d", [](AttentionInput& in) {
               in.grid = Tensor::full({5, 2}, 1 << 25, DType::i32);
             }) == "attention: the grid at [0, 0] of [5, 2] is 33554432; it must be in -16777216 to 16777216");
}

BOOST_AUTO_TEST_CASE(heads_must_exist_and_have_one_of_each) {
  PairTerm term = pointwise(Plus{}, PerHead{numbers({1})});
  for (const auto& [heads, found] :
       {std::pair(HeadRange{2, 2}, "2 heads from head 3"), std::pair(HeadRange{-1, 2}, "2 heads from head 0"),
        std::pair(HeadRange{INT64_MAX - 1, 1}, "1 heads from head 9223372036854775807"),
        std::pair(HeadRange{1, 0}, "0 heads from head 2"), std::pair(HeadRange{0, -1}, "-1 heads from head 1")}) {
    term.heads = heads;
    refused(with_bias(term), fmt::format("attention: bias 1 ('plus') acts on {} on; there are heads 1 to 3", found));
  }
  Score score{.queries = numbers({B, 2, I, D}), .keys = numbers({B, 2, J, D}), .heads = {0, 2}};
  Plan plan = with(&Plan::scores, score);
  score.heads = {1, 2};
  plan.scores.push_back(score);
  refused(plan, "attention: score 1 and score 2 both act on head 2; a head can have one");
  plan = with(&Plan::normalizers, Normalizer{});
  plan.normalizers.push_back({});
  refused(plan, "attention: normaliser 1 and normaliser 2 both act on head 1; a head can have one");
}

BOOST_AUTO_TEST_CASE(scores_must_have_their_shapes) {
  const Variable queries = numbers({B, H, I, 2}), keys = numbers({B, H, J, 2});
  refused(with(&Plan::scores, Score{.queries = queries, .keys = numbers({B, H, J, 3})}),
          "attention: score 1: 'queries' is f64 [2, 3, 4, 2] and 'keys' f64 [2, 3, 6, 3]; their last dimensions must "
          "be equal");
  refused(with(&Plan::scores, Score{.queries = queries, .keys = numbers({B, 1, J, 2})}),
          "attention: score 1: 'keys' is f64 [2, 1, 6, 2]; it must be [2, 3, 6, n]");
  refused(with(&Plan::scores, Score{.queries = {}, .keys = keys}),
          "attention: score 1: 'queries' is undefined; it must be [2, 3, 4, n]");
  refused(with(&Plan::scores, Score{.form = Score::Form::hidden, .queries = queries, .keys = keys}),
          "attention: score 1: 'weight' is undefined; it must be [2] or [3, 2]");
  refused(
      with(
          &Plan::scores,
          Score{.form = Score::Form::hidden_by_dimension, .queries = queries, .keys = keys, .weight = numbers({2, 4})}),
      "attention: score 1: 'weight' is f64 [2, 4]; it must be [2, 7] or [3, 2, 7]");
}

BOOST_AUTO_TEST_CASE(value_terms_and_windows_must_have_their_captures) {
  refused(with(&Plan::values, RelativeValues{3}),
          "attention: value term 1 ('RelativeValues') has 0 captures; it reads 1");
  refused(with(&Plan::values, RelativeValues{3, {{Per::whole, numbers({7, 6})}}}),
          "attention: value term 1 ('RelativeValues'): capture 1 (a whole tensor) is f64 [7, 6]; it must be [7, 7]");
  refused(with(&Plan::values, RelativeValues{-1, {{Per::whole, numbers({7, 7})}}}),
          "attention: value term 1 ('RelativeValues'): the clip is -1; it must be in 0 to 1099511627776");
  refused(with_bias({std::shared_ptr<const CustomTerm>()}), "attention: bias 1 has no CustomTerm; give it one");
  PointerWindow window{};
  window.segment = 1;
  refused(with(&Plan::windows, PairTerm{window}), "attention: window 1 ('PointerWindow') has 0 captures; it reads 4");
  const Capture query{Per::query_vector, numbers({B, H, I, D})}, key{Per::key_vector, numbers({B, H, J, D})},
      narrow{Per::key_vector, numbers({B, H, J, 2})};
  refused(with(&Plan::windows, PairTerm{window, {query, key, query, narrow}}),
          "attention: window 1 ('PointerWindow'): capture 4 (a vector for each key) is f64 [2, 3, 6, 2]; it must be "
          "[2, 3, 6, 5]");
  window.segment = 0;
  refused(with(&Plan::windows, PairTerm{window, {query, key, query, key}}),
          "attention: window 1 ('PointerWindow'): the length of a segment is 0; it must be at least 1");
  refused(with_bias({window}),
          "attention: bias 1 ('PointerWindow') multiplies weights; add it to the windows of the plan");
  window.additive = true;
  refused(with(&Plan::windows, PairTerm{window}),
          "attention: window 1 ('PointerWindow') adds to logits; add it to the biases of the plan");
}

BOOST_AUTO_TEST_CASE(parts_around_the_normaliser_must_have_their_shapes) {
  refused(with(&Plan::normalizers, Normalizer{.form = Normalizer::Form::custom}),
          "attention: normaliser 1 is custom, but has no CustomNormalizer; give it one");
  refused(with(&Plan::mixings, HeadMixing{numbers({2, 2}), {}}),
          "attention: mixing 1: 'before' is f64 [2, 2]; it must be [3, 3]");
  refused(with(&Plan::extra_keys, ExtraKeys{numbers({H, 2, 4}), numbers({H, 2, Dv})}),
          "attention: extra keys 1: 'keys' is f64 [3, 2, 4]; it must be [3, 2, 5]");
  refused(with(&Plan::extra_keys, ExtraKeys{numbers({H, 2, D}), numbers({H, 1, Dv})}),
          "attention: extra keys 1: 'values' is f64 [3, 1, 7]; it must be [3, 2, 7]");
  refused(with(&Plan::extra_keys, ExtraKeys{numbers({H, 0, D}), numbers({H, 0, Dv})}),
          "attention: extra keys 1: 'keys' is f64 [3, 0, 5]; it must be [3, 1, 5]");
  const Score score{.queries = numbers({B, H, I, D}), .keys = numbers({B, H, J, D})};
  refused(with(&Plan::second_maps, SecondMap{score, {Per::pair, numbers({I, J})}}),
          "attention: second map 1: 'factor' is PerPair; it must be PerHead or PerQuery");
  refused(with(&Plan::second_maps, SecondMap{score, PerHead{numbers({2})}}),
          "attention: second map 1: 'factor' is f64 [2]; it must broadcast to [3]");
  refused(with(&Plan::second_maps, SecondMap{Score{}, PerHead{numbers({H})}}),
          "attention: second map 1: 'queries' is undefined; it must be [2, 3, 4, n]");
  Plan plan;
  plan.sink = numbers({1});
  refused(plan, "attention: plan: 'sink' is f64 [1]; it must be [3]");
  plan = {};
  plan.focus = FocusedSoftmax{.sigma = 1, .threshold = 1, .gate = numbers({B, H, 1})};
  refused(plan, "attention: focus: 'gate' is f64 [2, 3, 1]; it must be [2, 3, 4]");
  for (double threshold : {-1.0, std::nan("")}) {
    plan.focus = FocusedSoftmax{.sigma = 1, .threshold = threshold, .gate = numbers({B, H, I})};
    refused(plan, fmt::format("attention: focus: the threshold is {}; it must be at least 0", threshold));
  }
  refused(with(&Plan::mixers, HeadMixer{}), "attention: mixer 1 has no PairlessMixer; give it one");
}

BOOST_AUTO_TEST_CASE(hard_windows_and_masks_must_have_their_shapes) {
  for (std::int64_t step : {0, -3})
    refused(with(&Plan::dilations, HeadDilation{step}),
            fmt::format("attention: dilation 1: the step is {}; it must be at least 1", step));
  refused(with(&Plan::ranges, HeadKeys{{Tensor::zeros({I}, DType::i64), {}}}),
          "attention: range 1: 'first' is i64 [4]; it must be i32 and broadcast to [2, 3, 4]");
  refused(with(&Plan::ranges, HeadKeys{{{}, Tensor::zeros({5}, DType::i32)}}),
          "attention: range 1: 'end' is i32 [5]; it must be i32 and broadcast to [2, 3, 4]");
  refused(with(&Plan::always, HeadKeys{{{}, Tensor::zeros({B, 1, 1, 1}, DType::i32)}}),
          "attention: always-seen range 1: 'end' is i32 [2, 1, 1, 1]; it must be i32 and broadcast "
          "to [2, 3, 4]");
  refused(with(&Plan::masks, HeadMask{Tensor::zeros({I, J}, DType::i32)}),
          "attention: mask 1 is i32 [4, 6]; it must be bool or u8 [2, 3, 4, 6], where all but the last may be 1");
  refused(with(&Plan::masks, HeadMask{Tensor::zeros({J, I}, DType::boolean), {1, 1}}),
          "attention: mask 1 is bool [6, 4]; it must be bool or u8 [2, 1, 4, 6], where all but the last may be 1");
  refused(with(&Plan::masks, HeadMask{Tensor::zeros({I, 1}, DType::boolean)}),
          "attention: mask 1 is bool [4, 1]; it must be bool or u8 [2, 3, 4, 6], where all but the last may be 1");
  refused(with(&Plan::masks, HeadMask{}),
          "attention: mask 1 is undefined; it must be bool or u8 [2, 3, 4, 6], where all but the last may be 1");
}

BOOST_AUTO_TEST_CASE(results_of_parts_written_by_hand_must_have_their_shapes) {
  BOOST_TEST(message_of([] {
               attend(context(), with(&Plan::mixers, HeadMixer{std::make_shared<const NoMixer>()}), 0, nullptr);
             }) == "attention: a PairlessMixer returned f64 [2, 3, 4, 5]; it must return [2, 3, 4, 7]");
  AttentionEngineScope scope(AttentionEngine::composed);
  BOOST_TEST(message_of([] { attend(context(), with_bias({std::make_shared<const Halves>()}), 0, nullptr); }) ==
             "attention: a CustomTerm returned f64 [2, 3, 4, 3]; it must return [2, 3, 4, 6]");
}

BOOST_AUTO_TEST_CASE(a_term_that_reads_a_capture_which_is_not_there_is_refused) {
  const PairTerm one{std::make_shared<const SecondCapture>(), {PerHead{numbers({H})}}};
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest}) {
    AttentionEngineScope scope(engine);
    BOOST_TEST(message_of([&] { attend(context(), with_bias(one), 0, nullptr); }) ==
               "attention: a term reads captured[1], and the number of its captures is 1");
  }
}

BOOST_AUTO_TEST_CASE(the_trace_has_a_factor_of_the_weights_only_where_every_window_is_one) {
  const PairTerm factor = pointwise(Weighted{}, PerHead{numbers({H})}),
                 other = pointwise(SelfWeighted{}, PerHead{numbers({H})});
  const auto has_factor = [](const std::vector<PairTerm>& windows) {
    Plan plan;
    plan.windows = windows;
    AttentionTrace trace;
    TracedEquationScope equation;
    attend(context(), plan, 0, &trace);
    return std::any_of(trace.quantities.begin(), trace.quantities.end(),
                       [](const auto& quantity) { return quantity.name == "window_factor"; });
  };
  BOOST_TEST(has_factor({factor}));
  BOOST_TEST(!has_factor({other}));
  BOOST_TEST(!has_factor({factor, other}));
  BOOST_TEST(!has_factor({}));
}

BOOST_AUTO_TEST_CASE(second_maps_are_apart_only_beside_windows_that_are_factors) {
  const auto obstacle = [](const PairTerm& window) {
    Plan plan;
    plan.second_maps.push_back({Score{}, PerHead{numbers({H})}});
    plan.windows.push_back(window);
    const char* found = obstacle_of_maps(plan, false);
    return std::string(found ? found : "none");
  };
  BOOST_TEST(obstacle(pointwise(Weighted{}, PerHead{numbers({H})})) == "none");
  BOOST_TEST(obstacle(pointwise(SelfWeighted{}, PerHead{numbers({H})})) ==
             "a second map beside a change of weights that is no factor");
  BOOST_TEST(obstacle({Renormalization{}, {}}) == "a second map whose weights are normalised again");
}

BOOST_AUTO_TEST_CASE(a_part_of_a_method_stays_on_the_heads_of_the_method) {
  Plan all;
  PairTerm term = pointwise(Plus{}, PerHead{numbers({1})});
  term.heads = {1, 1};
  BOOST_TEST(message_of([&] {
               add_to_plan(all, with_bias(term), context(), {0, 1});
             }) == "attention: a method's plan has a part for 1 heads from head 2 on; the method has heads 1 to 1");
  Plan sink;
  sink.sink = numbers({H});
  BOOST_TEST(message_of([&] {
               add_to_plan(all, sink, context(), {1, 2});
             }) == "attention: a method's sink is f64 [3]; it must be [2], one logit per head");
}

BOOST_AUTO_TEST_SUITE_END()
