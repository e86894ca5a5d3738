// Properties of every attention without projections: gradients, padding, causality, step-by-step decoding, engines.
#include "attention/engine/attend.h"
#include "autograd/gradcheck.h"
#include "tests/attention/mechanism.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, T = 5, d = 4;

/// Specifications of every mechanism, alone and in combinations.
const std::vector<std::string>& mechanisms() {
  static const std::vector<std::string> all{
      "classic(dot)",
      "classic(global)",
      "classic(general+local_m(half_width=1))",
      "classic(additive(hidden=2)+local_p(half_width=1))",
      "classic(local_p(half_width=1.5,renormalize=true))",
      "classic(local_m(half_width=1)+gaussian_location)",
      "classic(location(longest=3)+alibi)",
      "classic(mean)",
      "classic(laplace(learned=true,normalize=true))",
      "classic(fine_grained(hidden=3)+local_p(half_width=1,truncation=exact))",
      "classic(gaussian+window)",
      "classic(relative(clip=2)+alibi)",
      "classic(heads(relative(clip=2)*1, gaussian+gate+additive*1), heads=2)",
      "average(general, fine_grained, laplace(learned=true))",
      "concat(dot*2, head_input=split)",
      "concat(additive(hidden=2), average(mean, scaled_dot), width=3)",
      "concat(multi_head(relative(clip=2)+window, heads=2, output=false), fine_grained(hidden=2), width=3)",
      "average(multi_head(dman(clip=2), heads=1, output=false), multi_head(gaussian, heads=2, output=false), mean)",
      "concat(multi_head(general+local_p(half_width=1), heads=1, output=false)*2, head_input=split, linear=false)",
  };
  return all;
}

std::unique_ptr<Attention> made(const std::string& specification, Place place) {
  auto attention = attention_factory(specification)({.model_dim = d, .place = place});
  attention->to(DType::f64);
  Generator generator(21);
  for (auto& parameter : attention->parameters())
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator));
  attention->train(false);
  return attention;
}

AttentionInput self(const Variable& x, bool causal) { return {.query = x, .key = x, .value = x, .causal = causal}; }

Values rows(const Variable& x, std::int64_t sentence, std::int64_t count) {
  return x.value().slice(0, sentence, sentence + 1).slice(1, 0, count).to_vector<double>();
}

/// Calls body(attention, causal) for every mechanism, in an encoder and in a decoder.
template <class Body>
void for_every_mechanism(const Body& body) {
  for (const std::string& specification : mechanisms())
    for (bool causal : {false, true})
      BOOST_TEST_CONTEXT(specification << (causal ? " in a decoder" : " in an encoder")) {
        body(*made(specification, causal ? Place::decoder : Place::encoder), causal);
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(classic_properties)

BOOST_AUTO_TEST_CASE(inputs_and_parameters_have_their_gradients) {
  for_every_mechanism([](Attention& attention, bool causal) {
    Generator generator(22);
    std::vector<Variable> inputs{Variable(random_tensor({B, T, d}, generator), true)};
    for (auto& parameter : attention.parameters()) inputs.push_back(parameter.variable.named(parameter.name));
    auto f = [&](const std::vector<Variable>& x) {
      AttentionInput input = self(x[0], causal);
      input.key_lengths = key_lengths({5, 3});
      return attention.forward(input);
    };
    BOOST_TEST(gradcheck(f, inputs) == "");
  });
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  for_every_mechanism([](Attention& attention, bool causal) {
    Generator generator(23);
    Tensor x = random_tensor({B, T, d}, generator), padded = random_tensor({B, T + 3, d}, generator, 50, 100);
    padded.slice(1, 0, T).copy_from(x);
    AttentionInput input = self(x, causal), longer = self(padded, causal);
    input.key_lengths = longer.key_lengths = key_lengths({5, 3});
    Variable plain = attention.forward(input), with_pads = attention.forward(longer);
    check_equal(rows(plain, 0, 5), rows(with_pads, 0, 5));
    check_equal(rows(plain, 1, 3), rows(with_pads, 1, 3));
  });
}

BOOST_AUTO_TEST_CASE(decoding_step_by_step_equals_teacher_forcing_and_sees_no_later_key) {
  for_every_mechanism([](Attention& attention, bool causal) {
    if (!causal) return;
    Generator generator(24);
    Tensor x = random_tensor({B, T, d}, generator);
    Variable whole = attention.forward(self(x, true));
    DecoderMemory memory;
    for (std::int64_t t = 0; t < T; ++t) {
      AttentionInput step = self(x.slice(1, 0, t + 1), true), with_memory = self(x.slice(1, t, t + 1), true);
      step.query = x.slice(1, t, t + 1);
      step.query_offset = with_memory.query_offset = t;
      with_memory.memory = &memory;
      for (const AttentionInput& input : {step, with_memory})
        check_equal(attention.forward(input).value().to_vector<double>(),
                    whole.value().slice(1, t, t + 1).to_vector<double>());
    }
    Tensor changed = x.clone();
    changed.slice(1, 3, T).copy_from(random_tensor({B, T - 3, d}, generator, -20, 20));
    check_equal(rows(attention.forward(self(changed, true)), 1, 3), rows(whole, 1, 3));
  });
}

BOOST_AUTO_TEST_CASE(a_sentence_without_keys_gives_zeros_and_finite_gradients) {
  for_every_mechanism([](Attention& attention, bool causal) {
    Generator generator(25);
    Variable x(random_tensor({B, T, d}, generator), true);
    AttentionInput input = self(x, causal);
    input.key_lengths = key_lengths({0, 4});
    Variable out = attention.forward(input);
    check_equal(rows(out, 0, T), Values(static_cast<std::size_t>(T * out.size(2)), 0), 0);
    BOOST_TEST(std::isfinite(sum(grad(sum(square(out)), {x})[0]).item()));
  });
}

BOOST_AUTO_TEST_CASE(both_engines_agree) {
  for_every_mechanism([](Attention& attention, bool causal) {
    Generator generator(26);
    Variable x(random_tensor({B, T, d}, generator), true);
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine);
      AttentionInput input = self(x, causal);
      input.key_lengths = key_lengths({5, 3});
      Variable out = attention.forward(input);
      return std::pair(out.value().to_vector<double>(), grad(sum(square(out)), {x})[0].value().to_vector<double>());
    };
    auto fused = run(AttentionEngine::fused), composed = run(AttentionEngine::composed);
    check_equal(fused.first, composed.first, 1e-11);
    check_equal(fused.second, composed.second, 1e-11);
  });
}

BOOST_AUTO_TEST_CASE(mechanisms_with_projections_equal_the_same_attentions_alone) {
  const AttentionShape shape{.model_dim = 6, .heads = 2, .place = Place::encoder};
  auto f64 = [](const std::string& specification, AttentionShape own) {
    auto attention = attention_factory(specification)(own);
    attention->to(DType::f64);
    attention->train(false);
    return attention;
  };
  for (Place place : all_places())
    for (const MethodEntry& entry : registered_methods()) {
      const std::string name = entry.card.name;
      AttentionShape own = shape;
      own.place = place;
      std::unique_ptr<Attention> first;
      try {
        first = f64(name, own);
      } catch (const Error&) {
        continue;  // not defined in this place
      }
      auto both = f64("concat(multi_head(" + name + "), multi_head(" + name + ", heads=1), linear=false)", own);
      auto mean = f64("average(multi_head(" + name + "), multi_head(" + name + ", heads=1))", own);
      own.heads = 1;
      auto second = f64(name, own);
      Generator generator(31);
      std::map<std::string, Tensor> values;
      for (auto& parameter : both->parameters()) {
        values[parameter.name] = random_tensor(parameter.variable.shape(), generator);
        parameter.variable.value().copy_from(values[parameter.name]);
      }
      BOOST_TEST(mean->parameters().size() == values.size());
      for (auto& parameter : mean->parameters()) parameter.variable.value().copy_from(values.at(parameter.name));
      for (auto& parameter : first->parameters())
        parameter.variable.value().copy_from(values.at("head_1." + parameter.name));
      for (auto& parameter : second->parameters())
        parameter.variable.value().copy_from(values.at("head_2." + parameter.name));

      Tensor query = random_tensor({B, T, 6}, generator), mask = test_mask(T, T);
      Tensor key = place == Place::cross ? random_tensor({B, T, 6}, generator) : query;
      AttentionInput input{.query = query, .key = key, .value = key, .key_lengths = key_lengths({5, 3})};
      input.causal = place == Place::decoder;
      auto output = [&](Attention& attention, const Tensor& own_mask, AttentionTrace& trace) {
        trace = {};
        input.trace = &trace;
        input.mask = own_mask;
        return attention.forward(input);
      };
      BOOST_TEST_CONTEXT(name << " in place " << static_cast<int>(place)) {
        AttentionTrace one, two, traced;
        // three heads of the mask: two of the first mechanism, one of the second
        Variable a = output(*first, mask, one), b = output(*second, mask.slice(1, 0, 1), two);
        Variable side_by_side = concat({a, b}, 2);
        Tensor three = concat({Variable(mask), Variable(mask.slice(1, 0, 1))}, 1).value();
        if (one.weights.rank() == 5) {  // weights for 3 dimensions of a value and for 6: a trace cannot hold both
          BOOST_CHECK_THROW(output(*both, three, traced), Error);
        } else {
          check_equal(output(*both, three, traced).value().to_vector<double>(),
                      side_by_side.value().to_vector<double>());
          check_equal(traced.weights.value().to_vector<double>(),
                      concat({one.weights, two.weights}, 1).value().to_vector<double>());
          BOOST_REQUIRE(traced.quantities.size() == one.quantities.size() + two.quantities.size());
          for (std::size_t k = 0; k < traced.quantities.size(); ++k) {
            const TracedQuantity &found = traced.quantities[k], &first = one.quantities[k % one.quantities.size()];
            BOOST_TEST(found.first_head == (k < one.quantities.size() ? 0 : one.weights.size(1)));
            if (found.first_head == 0) BOOST_TEST(found.name == "head_1." + first.name);
          }
        }
        input.trace = nullptr;
        input.mask = three;
        check_equal(mean->forward(input).value().to_vector<double>(), ((a + b) / 2.0).value().to_vector<double>());
      }
    }
}

BOOST_AUTO_TEST_CASE(heads_of_projected_attention_are_mechanisms_over_split_projections) {
  const AttentionShape shape{.model_dim = 6, .heads = 2, .place = Place::cross, .step_dim = 2};
  for (const std::string specification :
       {"dot", "general", "additive(hidden=4)", "location(longest=4)", "fine_grained(hidden=2)", "mean",
        "laplace(learned=true)", "gaussian_location(learned=true,normalize=true)", "local_m(half_width=1)",
        "additive+local_p(half_width=2)", "local_p(half_width=1,hidden=2,renormalize=true)", "additive+flexible",
        "general+flexible(threshold=0.5,hidden=4)"}) {
    auto projected = attention_factory(specification)(shape);
    auto split = attention_factory("concat(" + specification + "*2,head_input=split)")(shape);
    Generator generator(27);
    for (Attention* attention : {projected.get(), split.get()}) {
      attention->to(DType::f64);
      attention->train(false);
    }
    std::size_t copied = 0;
    for (auto& parameter : projected->parameters()) {
      Tensor value = parameter.variable.value();
      value.copy_from(random_tensor(value.shape(), generator));
      if (parameter.name == "output.bias") value.fill(0);  // concat has none
      for (auto& target : split->parameters()) {
        Tensor to = target.variable.value();
        bool whole = target.name == parameter.name;
        bool first = target.name == "head_1." + parameter.name, second = target.name == "head_2." + parameter.name;
        if (whole) to.copy_from(value);
        if (first || second) to.copy_from(value.slice(0, second ? 1 : 0, second ? 2 : 1).reshape(to.shape()));
        copied += whole || first || second ? 1 : 0;
      }
    }
    BOOST_TEST(copied == split->parameters().size(), specification);
    AttentionInput input;
    input.query = random_tensor({2, 3, 6}, generator);
    input.key = input.value = random_tensor({2, 5, 6}, generator);
    input.key_lengths = key_lengths({5, 3});
    input.step_input = random_tensor({2, 3, 2}, generator);
    input.previous_focus = Tensor::of({0.5, 2.5, 1, 1.5}, {2, 2});
    AttentionTrace of_projected, of_split;
    input.trace = &of_projected;
    Variable a = projected->forward(input);
    input.trace = &of_split;
    Variable b = split->forward(input);
    BOOST_TEST_CONTEXT(specification) {
      check_equal(a.value().to_vector<double>(), b.value().to_vector<double>());
      check_equal(of_projected.weights.value().to_vector<double>(), of_split.weights.value().to_vector<double>());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
