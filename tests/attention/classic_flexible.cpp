// Flexible attention: the worked examples, the window rule, the focus carried from step to step.
#include <limits>

#include "attention/methods/flexible.h"
#include "autograd/gradcheck.h"
#include "nn/auxiliary_losses.h"
#include "tests/attention/mechanism.h"

using namespace fovea;
using namespace fovea::test;

namespace {

const std::string location_and = "classic(location(longest=8)+";

/// Eight keys whose scores are those of the worked example, and a gate of sigmoid(b).
class Example {
 public:
  Example(const std::string& options, double gate)
      : mechanism_(location_and + "flexible" + options + ")", {.model_dim = 1, .place = Place::cross},
                   {{"location.weight", {0.2, 1, 0.5, 2, 0.1, -0.3, 0.8, 0}},
                    {"flexible.gate_projection", {0}},
                    {"flexible.gate_vector", {0}},
                    {"flexible.gate_bias", {std::log(gate / (1 - gate))}}}) {}

  Mechanism& run(double focus) {
    AttentionInput input;
    input.previous_focus = Tensor::of({focus}, {1});
    return mechanism_.run(Tensor::of({1}, {1, 1, 1}), Tensor::of({1, 2, 3, 4, 5, 6, 7, 8}, {1, 8, 1}), input);
  }
  Mechanism& mechanism() { return mechanism_; }

 private:
  Mechanism mechanism_;
};

/// Small random attentions in cross-attention: d_q = 3, d_k = d_v = 2, the step input is 2 wide.
const AttentionShape small{
    .model_dim = 3, .place = Place::cross, .query_dim = 3, .key_dim = 2, .value_dim = 2, .step_dim = 2};

std::unique_ptr<Attention> random_mechanism(const std::string& specification, const AttentionShape& shape = small,
                                            double size = 1) {
  auto attention = attention_factory(specification)(shape);
  attention->to(DType::f64);
  Generator generator(4);
  for (auto& parameter : attention->parameters())
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator, -size, size));
  attention->train(false);
  return attention;
}

/// Two sentences of seven and four words, four decoder steps.
AttentionInput random_input(std::uint64_t seed = 9) {
  Generator generator(seed);
  AttentionInput input;
  input.query = random_tensor({2, 4, 3}, generator);
  input.key = input.value = random_tensor({2, 7, 2}, generator);
  input.key_lengths = key_lengths({7, 4});
  input.step_input = random_tensor({2, 4, 2}, generator);
  return input;
}

Variable quantity(const AttentionTrace& trace, const std::string& name) {
  for (const TracedQuantity& quantity : trace.quantities)
    if (quantity.name == name) return quantity.value;
  BOOST_FAIL("no quantity " << name);
  return {};
}

Values numbers(const Variable& x) { return x.value().to_vector<double>(); }

void copy_parameters(Attention& from, Attention& to) {
  for (auto& target : to.parameters())
    for (auto& source : from.parameters())
      if (source.name == target.name) target.variable.value().copy_from(source.variable.value());
}

/// Query t of a whole input, as the call of one decoding step.
AttentionInput step_of(AttentionInput whole, std::int64_t t, const Variable& focus, DecoderMemory& memory,
                       AttentionTrace& trace) {
  whole.query = slice(whole.query, 1, t, t + 1);
  whole.step_input = slice(whole.step_input, 1, t, t + 1);
  whole.query_offset = t;
  whole.previous_focus = focus;
  whole.memory = &memory;
  whole.trace = &trace;
  return whole;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(flexible_attention)

// A previous focus that is not a number makes its sentence's outputs no numbers, and no other sentence's.
BOOST_AUTO_TEST_CASE(a_focus_that_is_not_a_number_stays_so_in_every_engine) {
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused})
    for (const char* threshold : {"inf", "1"}) {
      AttentionEngineScope chosen(engine);
      auto attention = random_mechanism(fmt::format("classic(additive(hidden=3) + flexible(threshold={}))", threshold));
      AttentionInput input = random_input();
      input.previous_focus = Tensor::of({std::nan(""), 1.5}, {2, 1});
      const std::vector<double> out = attention->forward(input).value().to_vector<double>();
      for (std::size_t k = 0; k < out.size(); ++k) BOOST_TEST(std::isnan(out[k]) == (k < out.size() / 2));
    }
}

BOOST_AUTO_TEST_CASE(the_worked_example) {
  Example example("", 0.6);
  Mechanism& whole = example.run(2.25);
  check_printed(whole.quantity("gate"), {0.6});
  check_printed(whole.weights(), {0.04891, 0.173583, 0.128594, 0.539149, 0.057781, 0.021256, 0.026843, 0.003883});
  check_printed(whole.quantity("focus"), {2.573862});
  const Values near{0.050461, 0.179086, 0.13267, 0.55624, 0.059613, 0.02193, 0, 0};
  auto check_near = [&] {
    Example with_threshold("(threshold=1.2)", 0.6);
    Mechanism& windowed = with_threshold.run(2.25);
    check_equal(windowed.quantity("range"), {0, 5});
    check_printed(windowed.weights(), near);
    check_printed(windowed.quantity("focus"), {2.461248});
  };
  check_near();
  NoGrad no_grad;  // the scores of the other keys are skipped
  check_near();
}

BOOST_AUTO_TEST_CASE(windows_of_the_worked_example) {
  auto check = [](FocusWindow window, std::int64_t first, std::int64_t last) {
    BOOST_TEST(window.first == first);
    BOOST_TEST(window.last == last);
  };
  check(focus_window(2.25, 0.6, 1.5, 1.2, 8), 0, 5);
  check(focus_window(2.25, 1, 1.5, 1.2, 8), 0, 4);
  check(focus_window(2.25, 0.01, 1.5, 1.2, 8), 0, 7);
  check(focus_window(0, 1, 1.5, 1.2, 8), 0, 2);
  check(focus_window(2, 1, 1, 2, 8), 1, 3);
  check(focus_window(1.5, 1, 1.5, 0.01, 8), 2, 2);
  check(focus_window(-1, 1, 1, 0.5, 8), 0, 0);
  check(focus_window(3, 0, 1.5, 1.2, 8), 0, 7);
  check(focus_window(3, 1, 1.5, std::numeric_limits<double>::infinity(), 8), 0, 7);
  check(focus_window(3, 1, 1.5, 0, 8), 3, 3);
  check(focus_window(0, 1, 1.5, 1.2, 0), 0, -1);
}

BOOST_AUTO_TEST_CASE(the_window_is_the_set_of_keys_below_the_threshold) {
  Generator generator(2017);
  std::vector<double> draws = random_tensor({20000, 5}, generator, 0, 1).to_vector<double>();
  for (std::size_t k = 0; k < draws.size(); k += 5) {
    auto length = 1 + static_cast<std::int64_t>(draws[k] * 40);
    double p = draws[k + 1] * static_cast<double>(length - 1), g = draws[k + 2], sigma = 0.2 + 5 * draws[k + 3],
           tau = 3 * draws[k + 4] * draws[k + 4];
    FocusWindow window = focus_window(p, g, sigma, tau, length);
    std::int64_t first = length, last = -1;
    for (std::int64_t s = 0; s < length; ++s) {
      double distance = static_cast<double>(s) - p;
      if (g * distance * distance / (2 * sigma * sigma) >= tau) continue;
      first = std::min(first, s);
      last = std::max(last, s);
    }
    if (last < first) first = last = std::min(length - 1, static_cast<std::int64_t>(std::floor(p + 0.5)));
    BOOST_REQUIRE_MESSAGE(window.first == first && window.last == last,
                          "p " << p << " g " << g << " sigma " << sigma << " tau " << tau << " length " << length
                               << ": [" << window.first << ", " << window.last << "], expected [" << first << ", "
                               << last << "]");
  }
}

BOOST_AUTO_TEST_CASE(the_gate_of_the_worked_example) {
  AttentionShape shape{.model_dim = 2, .place = Place::cross, .step_dim = 3};
  Mechanism gated("classic(dot+flexible)", shape,
                  {{"flexible.gate_projection", {0.3, 0, -0.2, 0.4, 0.1, -0.3, 0.5, 0.2, 0, 0.6}},
                   {"flexible.gate_vector", {1.5, -1}},
                   {"flexible.gate_bias", {0.25}}});
  AttentionInput input;
  input.step_input = Tensor::of({0.2, 0.4, -0.6}, {1, 1, 3});
  gated.run(Tensor::of({0.5, -1}, {1, 1, 2}), Tensor::of({1, 2, 3, 4}, {1, 2, 2}), input);
  check_printed(gated.quantity("gate"), {0.839186});
}

BOOST_AUTO_TEST_CASE(the_fine_tuning_loss_of_the_worked_example) {
  // two sentences of 3 and 2 steps; the negative log-likelihoods of their tokens sum to 5.2
  Variable gates = Tensor::of({0.2, 0.8, 0.5, 0.9, 0.7, 99}, {2, 1, 3});
  auto rewards = [](const std::vector<Variable>& x) {
    AuxiliaryLosses losses;
    losses.add(&losses, -0.1, slice(x[0], 2, 0, 2));  // a recurrent decoder adds consecutive queries
    losses.add(&losses, -0.1, slice(x[0], 2, 2, 3));
    return losses.per_sentence(key_lengths({3, 2}));
  };
  BOOST_TEST(std::abs(5.2 + sum(rewards({gates})).item() - 5.07) < 1e-12);        // as printed, over sentences
  BOOST_TEST(std::abs(5.2 / 5 + mean(rewards({gates})).item() - 0.975) < 1e-12);  // a token's mean
  BOOST_TEST(gradcheck([&](const auto& x) { return sum(rewards(x)); }, {Variable(gates.value(), true)}) == "");
}

BOOST_AUTO_TEST_CASE(gradients_flow_through_the_focus_and_the_gate) {
  for (const char* specification :
       {"classic(additive+flexible)", "classic(additive+flexible(p_init=-1,sigma=0.8))",
        "classic(general+flexible(p_init=nopen))", "classic(general+flexible(threshold=0.4,sigma=1))",
        "average(additive+flexible, general+flexible(p_init=-1))"}) {
    auto attention = random_mechanism(specification);
    for (bool carried : {false, true}) {
      AttentionInput input = random_input();
      std::vector<Variable> inputs{Variable(input.query.value(), true), Variable(input.key.value(), true),
                                   Variable(input.step_input.value(), true)};
      if (carried) inputs.emplace_back(Tensor::of({2.3, 1.1}, {2}), true);
      for (auto& parameter : attention->parameters()) inputs.push_back(parameter.variable.named(parameter.name));
      auto f = [&](const std::vector<Variable>& x) {
        AttentionInput own = input;
        own.query = x[0];
        own.key = own.value = x[1];
        own.step_input = x[2];
        if (carried) own.previous_focus = x[3];
        return attention->forward(own);
      };
      BOOST_TEST(gradcheck(f, inputs) == "", specification);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_detached_focus_has_the_same_value_and_another_gradient) {
  auto flowing = random_mechanism("classic(additive+flexible)"),
       detached = random_mechanism("classic(additive+flexible(detach_focus=true))");
  AttentionInput input = random_input();
  Variable key(input.key.value(), true);
  input.key = key;
  Variable a = flowing->forward(input), b = detached->forward(input);
  check_equal(numbers(a), numbers(b), 0);
  BOOST_TEST(numbers(grad(sum(square(a)), {key})[0]) != numbers(grad(sum(square(b)), {key})[0]));
  input.previous_focus = Variable(Tensor::of({2.3, 1.1}, {2}), true);
  Gradients none = grad(sum(detached->forward(input)), {input.previous_focus});
  check_equal(numbers(none[0]), {0, 0}, 0);
}

BOOST_AUTO_TEST_CASE(one_call_with_all_steps_equals_one_call_per_step) {
  for (const char* specification :
       {"classic(additive+flexible)", "classic(general+flexible(p_init=nopen,threshold=0.5))",
        "classic(additive+flexible(p_init=-1,threshold=0.3,sigma=1))"})
    for (bool with_gradients : {false, true}) {
      GradMode mode(with_gradients);
      auto attention = random_mechanism(specification);
      AttentionInput input = random_input();
      AttentionTrace whole;
      input.trace = &whole;
      Tensor output = attention->forward(input).value();
      DecoderMemory memory;
      Variable focus;
      for (std::int64_t t = 0; t < 4; ++t) {
        AttentionTrace trace;
        AttentionInput step = step_of(random_input(), t, focus, memory, trace);
        check_equal(numbers(attention->forward(step)), output.slice(1, t, t + 1).to_vector<double>());
        check_equal(numbers(trace.weights), whole.weights.value().slice(2, t, t + 1).to_vector<double>());
        for (const char* name : {"gate", "focus", "range"})
          check_equal(numbers(quantity(trace, name)),
                      quantity(whole, name).value().slice(2, t, t + 1).to_vector<double>());
        focus = squeeze(quantity(trace, "focus"), 2);  // [B, 1]
      }
    }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_one_call_per_step_equals_that_of_one_call) {
  auto attention = random_mechanism("classic(additive+flexible)");
  Generator generator(14);
  Tensor cotangent = random_tensor({2, 4, 2}, generator);
  AttentionInput input = random_input();
  std::vector<Variable> wanted{Variable(input.query.value(), true), Variable(input.key.value(), true)};
  for (auto& parameter : attention->parameters()) wanted.push_back(parameter.variable);
  input.query = wanted[0];
  input.key = input.value = wanted[1];
  Gradients whole = grad(sum(attention->forward(input) * Variable(cotangent)), wanted);
  Variable loss = Tensor::zeros({}, DType::f64), focus;
  DecoderMemory memory;
  for (std::int64_t t = 0; t < 4; ++t) {
    AttentionTrace trace;
    AttentionInput step = step_of(input, t, focus, memory, trace);
    loss = loss + sum(attention->forward(step) * Variable(cotangent.slice(1, t, t + 1)));
    focus = squeeze(quantity(trace, "focus"), 2);
  }
  Gradients steps = grad(loss, wanted);
  for (std::size_t k = 0; k < wanted.size(); ++k) check_equal(numbers(steps[k]), numbers(whole[k]));
}

BOOST_AUTO_TEST_CASE(scores_outside_of_the_window_are_not_computed_and_change_nothing) {
  for (const char* specification :
       {"classic(additive+flexible(threshold=0.3,sigma=0.7))",
        "classic(location(longest=3)+flexible(threshold=0.4,sigma=1))", "classic(mean+flexible(threshold=0.4,sigma=1))",
        "average(general+flexible(threshold=0.2), additive+flexible)"}) {
    auto attention = random_mechanism(specification, small, 3);
    AttentionInput input = random_input();
    AttentionTrace masked, skipped;
    input.trace = &masked;
    Variable with_gradients = attention->forward(input);
    NoGrad no_grad;
    input.trace = &skipped;
    check_equal(numbers(attention->forward(input)), numbers(with_gradients));
    check_equal(numbers(skipped.weights), numbers(masked.weights));
  }
  // Keys outside of every window may be anything.
  auto attention = random_mechanism("classic(general+flexible(threshold=0.3,sigma=0.7))", small, 3);
  AttentionInput input = random_input();
  AttentionTrace trace;
  input.trace = &trace;
  NoGrad no_grad;
  Variable before = attention->forward(input);
  Values ranges = numbers(quantity(trace, "range"));
  Tensor keys = input.key.value().clone();
  int outside = 0;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < 7; ++s) {
      bool used = false;
      for (std::size_t t = 0; t < 4; ++t) {
        std::size_t at = (static_cast<std::size_t>(b) * 4 + t) * 2;
        used = used || (ranges[at] <= static_cast<double>(s) && static_cast<double>(s) <= ranges[at + 1]);
      }
      if (used) continue;
      ++outside;
      keys.slice(0, b, b + 1).slice(1, s, s + 1).fill(std::numeric_limits<double>::quiet_NaN());
    }
  BOOST_TEST(outside > 2);
  input.key = input.value = keys;
  check_equal(numbers(attention->forward(input)), numbers(before), 0);
}

BOOST_AUTO_TEST_CASE(a_threshold_has_no_effect_in_training) {
  auto wide = random_mechanism("classic(general+flexible)"),
       narrow = random_mechanism("classic(general+flexible(threshold=0.1))");
  AttentionInput input = random_input();
  BOOST_TEST(numbers(wide->forward(input)) != numbers(narrow->forward(input)));
  narrow->train(true);
  check_equal(numbers(wide->forward(input)), numbers(narrow->forward(input)), 0);
  auto far = random_mechanism("classic(general+flexible(threshold=1e9))");
  NoGrad no_grad;
  check_equal(numbers(wide->forward(input)), numbers(far->forward(input)));
}

BOOST_AUTO_TEST_CASE(a_closed_gate_is_global_attention) {
  auto flexible = random_mechanism("classic(additive+flexible)"), global = random_mechanism("classic(additive)");
  copy_parameters(*flexible, *global);
  for (auto& parameter : flexible->parameters())
    if (parameter.name == "flexible.gate_bias") parameter.variable.value().fill(-1000);
  AttentionInput input = random_input();
  check_equal(numbers(flexible->forward(input)), numbers(global->forward(input)), 0);
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  for (const char* specification : {"classic(additive+flexible)", "classic(additive+flexible(threshold=0.5))"})
    for (bool with_gradients : {false, true}) {
      GradMode mode(with_gradients);
      auto attention = random_mechanism(specification);
      AttentionInput input = random_input(), longer = input;
      Generator generator(3);
      Tensor padded = random_tensor({2, 12, 2}, generator, 50, 100);
      padded.slice(1, 0, 7).copy_from(input.key.value());
      longer.key = longer.value = padded;
      check_equal(numbers(attention->forward(longer)), numbers(attention->forward(input)));
    }
}

BOOST_AUTO_TEST_CASE(the_first_step_without_a_penalty_reports_a_gate_of_zero) {
  auto open = random_mechanism("classic(general+flexible(p_init=nopen,threshold=0.1))"),
       global = random_mechanism("classic(general)");
  copy_parameters(*open, *global);
  AttentionTrace trace;
  AttentionInput input = random_input();
  input.trace = &trace;
  Tensor out = open->forward(input).value();
  check_equal(numbers(slice(quantity(trace, "gate"), 2, 0, 1)), {0, 0}, 0);
  check_equal(numbers(slice(quantity(trace, "range"), 2, 0, 1)), {0, 6, 0, 3}, 0);
  check_equal(out.slice(1, 0, 1).to_vector<double>(),
              global->forward(random_input()).value().slice(1, 0, 1).to_vector<double>());
}

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_paper) {
  AttentionShape shape{.model_dim = 10, .place = Place::cross, .key_dim = 20, .value_dim = 20, .step_dim = 6};
  auto attention = attention_factory("classic(additive(hidden=7,bias=false)+flexible(hidden=7))")(shape);
  BOOST_TEST(attention->parameter_count() == 10 * 7 + 20 * 7 + 7 + 7 + 7 * (10 + 6) + 1);
}

BOOST_AUTO_TEST_CASE(errors_name_the_missing_input) {
  auto error = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& caught) {
      return caught.what();
    }
    return "";
  };
  AttentionInput input = random_input();
  auto attention = random_mechanism("classic(general+flexible)");
  input.query_offset = 1;
  BOOST_TEST(error([&] { attention->forward(input); }) ==
             "flexible: the first query is at step 1, but there is no previous focus; set previous_focus or decode "
             "with a memory");
  input = random_input();
  input.step_input = {};
  BOOST_TEST(error([&] { attention->forward(input); }) ==
             "flexible: the step input must have width 2; it is undefined");
  BOOST_TEST(error([] { attention_factory("flexible")({.model_dim = 4, .heads = 2}); }) ==
             "flexible: the focus is a position in the source; it is defined in cross-attention only");
  BOOST_TEST(error([&] { random_mechanism("classic(fine_grained+flexible)")->forward(random_input()); }) ==
             "flexible: a score with weights per dimension of the values (fine_grained) has no single focus; use "
             "another score");
}

BOOST_AUTO_TEST_CASE(every_head_has_its_own_focus) {
  AttentionShape shape{.model_dim = 4, .heads = 2, .place = Place::cross};
  auto attention = random_mechanism("heads(global*1, additive+flexible(threshold=0.6)*1)", shape);
  Generator generator(10);
  Tensor query = random_tensor({2, 3, 4}, generator), key = random_tensor({2, 6, 4}, generator);
  AttentionTrace trace;
  AttentionInput input{.query = query, .key = key, .value = key, .trace = &trace};
  attention->forward(input);
  BOOST_TEST(quantity(trace, "focus").shape().str() == "[2, 1, 3]");
  auto both = random_mechanism("additive+flexible", shape);
  input.previous_focus = Tensor::of({0, 5, 2, 3}, {2, 2});
  trace = {};
  both->forward(input);
  BOOST_TEST(quantity(trace, "focus").shape().str() == "[2, 2, 3]");
}

BOOST_AUTO_TEST_SUITE_END()
