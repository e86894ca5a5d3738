// Properties of every method of the registry, in every place where it is defined.
#include <cmath>
#include <functional>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "autograd/gradcheck.h"
#include "autograd/operations/gather.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, I = 4, J = 5, d = 6;

/// Runs body on every specification in every place where it is defined.
void for_every_attention(const std::function<void(Attention&, Place)>& body,
                         const std::vector<std::string>& specifications = all_specifications()) {
  for (const std::string& specification : specifications) {
    int places = 0;
    for (Place place : all_places()) {
      std::unique_ptr<Attention> attention;
      try {
        attention = random_attention(specification, place);
      } catch (const Error& error) {
        BOOST_TEST(std::string(error.what()).find(':') != std::string::npos, error.what());
        continue;
      }
      ++places;
      // the engine `fastest` would not use the fused one for rows as short as here; engines.cpp compares both
      AttentionEngineScope engine(has_fused_form(specification) ? AttentionEngine::fused : AttentionEngine::composed);
      BOOST_TEST_CONTEXT(specification << " in place " << static_cast<int>(place)) { body(*attention, place); }
    }
    BOOST_TEST(places > 0, specification << " is defined nowhere");
  }
}

struct CausalAttention {
  std::unique_ptr<Attention> attention;
  bool causal;
};
/// The attention in a decoder, or in cross-attention if the method is not defined in a decoder.
CausalAttention causal_where_defined(const std::string& method) {
  try {
    return {random_attention(method, Place::decoder), true};
  } catch (const Error&) {
    return {random_attention(method, Place::cross), false};
  }
}

/// Queries and keys: the same sequence in self-attention, two sequences in cross-attention.
struct States {
  Tensor query, key;
};
States random_states(Place place, Generator& generator, std::int64_t keys = J) {
  Tensor key = random_tensor({B, keys, d}, generator);
  return {place == Place::cross ? random_tensor({B, I, d}, generator) : key, key};
}

AttentionInput input_of(const States& states, Place place, const Tensor& lengths = {}) {
  return {.query = states.query,
          .key = states.key,
          .value = states.key,
          .key_lengths = lengths,
          .mask = test_mask(states.query.size(1), states.key.size(1)),
          .causal = place == Place::decoder};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  BOOST_REQUIRE(a.shape() == b.shape());
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    double difference = std::abs(x[k] - y[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest;
}

Tensor lengths_of(std::vector<std::int32_t> lengths) {
  return Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_properties)

BOOST_AUTO_TEST_CASE(every_input_and_parameter_has_its_gradient) {
  std::vector<std::string> specifications = all_specifications();
  std::erase(specifications, "flexible(detach_focus=true)");  // its gradient leaves out the focus by definition
  auto check = [](Attention& attention, Place place) {
    Generator generator(11);
    States states = random_states(place, generator);
    std::vector<Variable> inputs{Variable(states.query, true)};
    if (place == Place::cross) inputs.emplace_back(states.key, true);
    // Tables of many distances are checked in the specifications whose options make them short.
    for (auto& parameter : attention.parameters())
      if (parameter.variable.value().elements() < 200) inputs.push_back(parameter.variable.named(parameter.name));
    auto f = [&](const std::vector<Variable>& x) {
      Variable key = place == Place::cross ? x[1] : x[0];
      return attention.forward({.query = x[0],
                                .key = key,
                                .value = key,
                                .key_lengths = lengths_of({5, 3}),
                                .mask = test_mask(x[0].size(1), J),
                                .causal = place == Place::decoder});
    };
    std::string difference = gradcheck(f, inputs);
    BOOST_TEST(difference == "");
  };
  for_every_attention(check, specifications);
}

BOOST_AUTO_TEST_CASE(every_method_has_second_derivatives) {
  for (const MethodEntry& entry : registered_methods()) {
    auto made = causal_where_defined(entry.card.name);
    Generator generator(19);
    auto f = [&](const std::vector<Variable>& x) {
      return made.attention->forward(
          {.query = x[0], .key = x[0], .value = x[0], .mask = test_mask(3, 3), .causal = made.causal});
    };
    std::string difference = gradgradcheck(f, {Variable(random_tensor({1, 3, d}, generator), true)});
    BOOST_TEST(difference == "", entry.card.name << ": " << difference);
  }
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  for_every_attention([](Attention& attention, Place place) {
    Generator generator(12);
    States states = random_states(place, generator);
    Tensor padded = Tensor::empty({B, J + 3, d}, DType::f64);
    padded.copy_from(random_tensor({B, J + 3, d}, generator, 50, 100));  // large numbers in the padding
    padded.slice(1, 0, J).copy_from(states.key);
    States longer{place == Place::cross ? states.query : padded, padded};
    Variable plain = attention.forward(input_of(states, place, lengths_of({5, 3})));
    Variable with_pads = attention.forward(input_of(longer, place, lengths_of({5, 3})));
    std::int64_t rows = plain.size(1);
    BOOST_TEST(largest_difference(plain.value().slice(0, 0, 1), with_pads.value().slice(0, 0, 1).slice(1, 0, rows)) <
               1e-12);
    // The second sentence has three real words: in self-attention only their rows are compared.
    if (place != Place::cross) rows = 3;
    BOOST_TEST(largest_difference(plain.value().slice(0, 1, 2).slice(1, 0, rows),
                                  with_pads.value().slice(0, 1, 2).slice(1, 0, rows)) < 1e-12);
  });
}

BOOST_AUTO_TEST_CASE(padding_changes_no_gradient) {
  for_every_attention([](Attention& attention, Place place) {
    Generator generator(12);
    States states = random_states(place, generator);
    Tensor lengths = lengths_of({J, 3});
    std::int64_t rows = states.query.size(1);
    // the outputs of padded queries get no gradient
    Tensor cotangent = random_tensor({B, rows, d}, generator);
    if (place != Place::cross) cotangent.slice(0, 1, 2).slice(1, 3, rows).fill(0);
    auto gradients_of = [&](std::int64_t pads) {
      auto padded = [&](const Tensor& x) {
        Tensor longer = random_tensor({B, x.size(1) + pads, d}, generator, 5, 10);
        longer.slice(1, 0, x.size(1)).copy_from(x);
        return longer;
      };
      Variable key(padded(states.key), true), query = place == Place::cross ? Variable(states.query, true) : key;
      std::vector<Variable> leaves{key, query};
      for (auto& parameter : attention.parameters()) leaves.push_back(parameter.variable);
      AttentionInput input = input_of({query.value(), key.value()}, place, lengths);
      input.query = query;
      input.key = input.value = key;
      Variable output = slice(attention.forward(input), 1, 0, rows);
      std::vector<Tensor> found;
      for (const Variable& gradient : grad(output, leaves, cotangent)) found.push_back(gradient.value());
      return found;
    };
    std::vector<Tensor> plain = gradients_of(0), with_pads = gradients_of(3);
    for (std::size_t k = 0; k < plain.size(); ++k) {
      Tensor real = k < 2 ? with_pads[k].slice(1, 0, plain[k].size(1)) : with_pads[k];
      BOOST_TEST(largest_difference(plain[k], real) < 1e-12, "gradient " << k);
    }
    BOOST_TEST(largest_difference(with_pads[0].slice(1, J, J + 3), Tensor::zeros({B, 3, d}, DType::f64)) == 0);
  });
}

BOOST_AUTO_TEST_CASE(later_tokens_change_nothing_in_causal_attention) {
  for_every_attention([](Attention& attention, Place place) {
    if (place != Place::decoder) return;
    Generator generator(13);
    States states = random_states(place, generator);
    Variable before = attention.forward(input_of(states, place));
    for (std::int64_t t = 0; t + 1 < J; ++t) {
      States changed{states.key.clone(), {}};
      changed.query.slice(1, t + 1, J).copy_from(random_tensor({B, J - t - 1, d}, generator, -20, 20));
      changed.key = changed.query;
      Variable after = attention.forward(input_of(changed, place));
      BOOST_TEST(largest_difference(before.value().slice(1, 0, t + 1), after.value().slice(1, 0, t + 1)) < 1e-12);
    }
  });
}

BOOST_AUTO_TEST_CASE(step_by_step_equals_teacher_forcing) {
  for_every_attention([](Attention& attention, Place place) {
    if (place != Place::decoder) return;
    Generator generator(14);
    States states = random_states(place, generator);
    Variable whole = attention.forward(input_of(states, place));
    for (std::int64_t t = 0; t < J; ++t) {
      Tensor prefix = states.key.slice(1, 0, t + 1);
      AttentionInput step{.query = states.key.slice(1, t, t + 1),
                          .key = prefix,
                          .value = prefix,
                          .mask = test_mask(1, t + 1, t),
                          .causal = true,
                          .query_offset = t};
      BOOST_TEST(largest_difference(attention.forward(step).value(), whole.value().slice(1, t, t + 1)) < 1e-12);
    }
  });
}

namespace {

/// The input of queries first ≤ i < end of a call, as a decoder passes it at that step.
AttentionInput step_of(const States& states, Place place, std::int64_t first, std::int64_t end, DecoderMemory& memory) {
  Tensor query = states.query.slice(1, first, end), key = place == Place::cross ? states.key : query;
  // with a memory, cross-attention reads the source in the first call only
  if (place == Place::cross && first > 0) key = Tensor::full(key.shape(), std::nan(""), DType::f64);
  return {.query = query,
          .key = key,
          .value = key,
          .mask = test_mask(end - first, place == Place::cross ? J : end, first),
          .causal = place == Place::decoder,
          .query_offset = first,
          .memory = &memory};
}

}  // namespace

BOOST_AUTO_TEST_CASE(decoding_with_a_memory_equals_teacher_forcing) {
  for_every_attention([](Attention& attention, Place place) {
    if (place == Place::encoder) return;
    Generator generator(20);
    States states = random_states(place, generator);
    if (place == Place::decoder) states.query = states.key;
    Tensor whole = attention.forward(input_of(states, place)).value();
    for (bool recorded : {true, false})
      for (std::int64_t step : {1, 2, 3}) {
        GradMode mode(recorded);
        DecoderMemory memory;
        for (std::int64_t first = 0, T = whole.size(1); first < T; first += step) {
          std::int64_t end = std::min(first + step, T);
          Tensor out = attention.forward(step_of(states, place, first, end, memory)).value();
          BOOST_TEST(largest_difference(out, whole.slice(1, first, end)) < 1e-12);
        }
      }
  });
}

BOOST_AUTO_TEST_CASE(a_reordered_memory_continues_from_the_parents) {
  for_every_attention([](Attention& attention, Place place) {
    if (place == Place::encoder) return;
    Generator generator(22);
    States states = random_states(place, generator);
    if (place == Place::decoder) states.query = states.key;
    Tensor whole = attention.forward(input_of(states, place)).value();
    NoGrad off;
    DecoderMemory memory;
    attention.forward(step_of(states, place, 0, 2, memory));
    // first more hypotheses, then a permutation, then fewer: of sentences 1, 0, 1; then 1, 1, 0; then 0
    std::vector<std::vector<std::int64_t>> parents{{1, 0, 1}, {2, 0, 1}, {2}}, sentences{{1, 0, 1}, {1, 1, 0}, {0}};
    for (std::int64_t t = 2; t < whole.size(1); ++t) {
      auto turn = std::min<std::size_t>(static_cast<std::size_t>(t - 2), 2);
      if (t <= 4) memory.reorder(parents[turn]);
      Tensor rows = Tensor::from(sentences[turn], {std::ssize(sentences[turn])});
      auto of_sentences = [&](const Tensor& x) {
        return gather_rows(x.reshape({B, x.size(1) * d}), rows).reshape({rows.size(0), x.size(1), d});
      };
      States own{of_sentences(states.query), of_sentences(states.key)};
      Tensor out = attention.forward(step_of(own, place, t, t + 1, memory)).value();
      BOOST_TEST(largest_difference(out, of_sentences(whole).slice(1, t, t + 1)) < 1e-12);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_sentence_with_no_keys_gives_the_output_bias) {
  std::vector<std::string> specifications = all_specifications();  // extra keys are seen even without tokens
  std::erase_if(specifications, [](const std::string& name) { return name.find("persistent") != std::string::npos; });
  auto check = [](Attention& attention, Place place) {
    Generator generator(15);
    States states = random_states(place, generator);
    Variable query(states.query, true);
    Variable key = place == Place::cross ? Variable(states.key, true) : query;
    Variable out = attention.forward({.query = query,
                                      .key = key,
                                      .value = key,
                                      .key_lengths = lengths_of({0, 4}),
                                      .mask = test_mask(states.query.size(1), J),
                                      .causal = place == Place::decoder});
    for (auto& parameter : attention.parameters())
      if (parameter.name == "output.bias") {
        Tensor bias = parameter.variable.value().expand({1, out.size(1), d});
        BOOST_TEST(largest_difference(out.value().slice(0, 0, 1), bias) < 1e-15);
      }
    Gradients gradients = grad(sum(square(out)), {query});
    BOOST_TEST(largest_difference(gradients[0].value().slice(0, 0, 1),
                                  Tensor::zeros({1, query.size(1), d}, DType::f64)) < 1e-300);
    BOOST_TEST(std::isfinite(sum(gradients[0]).item()));
  };
  for_every_attention(check, specifications);
}

BOOST_AUTO_TEST_CASE(huge_logits_stay_finite) {
  for_every_attention([](Attention& attention, Place place) {
    Generator generator(16);
    States states = random_states(place, generator);
    Variable query(map(Affine{1e4, 0}, states.query), true);
    Variable key = place == Place::cross ? Variable(map(Affine{1e4, 0}, states.key), true) : query;
    AttentionInput input = input_of(states, place);
    input.query = query;
    input.key = input.value = key;
    Variable out = attention.forward(input);
    BOOST_TEST(std::isfinite(sum(out).item()));
    BOOST_TEST(std::isfinite(sum(grad(sum(out), {query})[0]).item()));
  });
}

BOOST_AUTO_TEST_CASE(rows_of_two_thousand_keys_stay_finite) {
  for (const MethodEntry& entry : registered_methods()) {
    auto [attention, causal] = causal_where_defined(entry.card.name);
    Generator generator(18);
    Variable x(random_tensor({1, 2000, d}, generator), true);
    Variable out =
        attention->forward({.query = x, .key = x, .value = x, .mask = test_mask(2000, 2000), .causal = causal});
    BOOST_TEST(std::isfinite(sum(out).item()), entry.card.name);
    BOOST_TEST(std::isfinite(sum(grad(sum(out), {x})[0]).item()), entry.card.name);
  }
}

BOOST_AUTO_TEST_CASE(the_traced_weights_are_the_coefficients_of_the_values) {
  for_every_attention([](Attention& attention, Place place) {
    Generator generator(17);
    States states = random_states(place, generator);
    AttentionTrace trace;
    AttentionInput input = input_of(states, place, lengths_of({5, 3}));
    input.trace = &trace;
    attention.forward(input);
    BOOST_REQUIRE(trace.weights.defined());
    Shape shape = trace.weights.shape();
    if (shape.rank() == 5) shape.erase(4);  // weights for each dimension of the values
    BOOST_TEST(shape.str() == Shape({B, attention.heads(), states.query.size(1), J}).str());
    Tensor pads = trace.weights.value().slice(0, 1, 2).slice(3, 3, J);
    BOOST_TEST(largest_difference(pads, Tensor::zeros(pads.shape(), DType::f64)) == 0.0);
  });
}

/// Two documents of 3 and 4 tokens in one row, with padding after them, give the results of two rows.
BOOST_AUTO_TEST_CASE(documents_in_one_row_give_the_results_of_separate_rows) {
  constexpr std::int64_t first = 3, second = 4, padding = 2;
  Generator generator(21);
  const Tensor row = random_tensor({1, first + second + padding, d}, generator);
  const Tensor documents = Tensor::from(std::vector<std::int64_t>{5, 5, 5, 2, 2, 2, 2, 9, 9}, {1, 9});
  const Tensor mask = test_mask(9, 9);
  int compared = 0;
  // methods that read queries after rotary has rotated them by their positions
  std::vector<std::string> specifications = all_specifications();
  for (const char* more : {"rotary+local_p(half_width=1)", "rotary(pairs=halves)+general+local_p(half_width=2)",
                           "heads(rotary*1, local_p(half_width=1)*1)", "grouped+rotary+local_p(half_width=1)",
                           "differential+rotary+local_p(half_width=2)", "rotary+additive(hidden=2)",
                           "heads(linear*1, light_convolution(width=4)*1)", "linear+gate"})
    specifications.emplace_back(more);
  auto compare = [&](Attention& attention, Place place) {
    if (place == Place::cross) return;
    auto run = [&](std::int64_t begin, std::int64_t end, bool packed) {
      const Tensor states = row.slice(1, begin, end);
      Variable x(states);
      return attention
          .forward({.query = x,
                    .key = x,
                    .value = x,
                    .key_lengths = Tensor::full({1}, double(packed ? first + second : end - begin), DType::i32),
                    .documents = packed ? documents : Tensor(),
                    .mask = mask.slice(2, begin, end).slice(3, begin, end),
                    .causal = place == Place::decoder})
          .value();
    };
    Tensor together;
    try {
      together = run(0, 9, true);
    } catch (const Error& error) {  // location scores, segments
      BOOST_TEST(std::string(error.what()).find("documents in one row") != std::string::npos, error.what());
      return;
    }
    ++compared;
    BOOST_TEST(largest_difference(together.slice(1, 0, first), run(0, first, false)) < 1e-12);
    BOOST_TEST(largest_difference(together.slice(1, first, first + second), run(first, first + second, false)) < 1e-12);
  };
  for_every_attention(compare, specifications);
  BOOST_TEST(compared > 60);
}

// Outputs and gradients for two rows whose documents end at different positions; some documents are longer than a block
// or a chunk of an engine.
BOOST_AUTO_TEST_CASE(long_documents_in_one_row_give_the_results_of_separate_rows) {
  const std::vector<std::vector<std::int64_t>> lengths{{70, 1, 64, 3, 42}, {5, 150, 25}};
  constexpr std::int64_t T = 180;
  std::vector<std::int64_t> numbers;
  for (const auto& row : lengths)
    for (std::size_t k = 0; k < row.size(); ++k) numbers.insert(numbers.end(), row[k], static_cast<std::int64_t>(k));
  const Tensor documents = Tensor::from(numbers, {2, T});
  std::vector<std::string> specifications{"light_convolution(width=4)", "light_convolution(width=5,dynamic=true)",
                                          "sliding(left=3,right=9)+sinks(tokens=2)", "rotary+local_p(half_width=5)"};
  for (const MethodEntry& entry : registered_methods()) specifications.emplace_back(entry.card.name);
  int compared = 0;
  auto compare = [&](Attention& attention, Place place) {
    if (place == Place::cross) return;
    Generator generator(25);
    const Variable rows(random_tensor({2, T, d}, generator), true);
    const Tensor cotangent = random_tensor({2, T, d}, generator);
    auto run = [&](const Variable& x, std::int64_t first, const Tensor& own) {
      const std::int64_t end = first + x.size(1);
      return attention.forward({.query = x,
                                .key = x,
                                .value = x,
                                .documents = own,
                                .mask = test_mask(T, T).slice(2, first, end).slice(3, first, end),
                                .causal = place == Place::decoder});
    };
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest}) {
      AttentionEngineScope chosen(engine, 48);
      Variable together;
      try {
        together = run(rows, 0, documents);
      } catch (const Error& error) {
        if (engine == AttentionEngine::composed)
          BOOST_TEST(std::string(error.what()).find("documents in one row") != std::string::npos, error.what());
        continue;
      }
      ++compared;
      const Tensor gradient = grad(together, {rows}, cotangent)[0].value();
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t k = 0, first = 0; k < std::ssize(lengths[b]); first += lengths[b][k++]) {
          AttentionEngineScope plain(AttentionEngine::composed);
          auto own = [&](const Tensor& x) { return x.slice(0, b, b + 1).slice(1, first, first + lengths[b][k]); };
          const Variable x(own(rows.value()), true), alone = run(x, first, {});
          BOOST_TEST(largest_difference(own(together.value()), alone.value()) < 1e-11);
          BOOST_TEST(largest_difference(own(gradient), grad(alone, {x}, own(cotangent))[0].value()) < 1e-10);
        }
    }
  };
  for_every_attention(compare, specifications);
  BOOST_TEST(compared > 60);
}

BOOST_AUTO_TEST_CASE(documents_of_a_wrong_shape_order_or_place_are_errors) {
  Generator generator(21);
  auto attention = random_attention("global", Place::encoder);
  const Variable x = random_tensor({1, 4, d}, generator);
  auto with = [&](const Tensor& documents) {
    return
        [&attention, x, documents] { attention->forward({.query = x, .key = x, .value = x, .documents = documents}); };
  };
  BOOST_CHECK_EXCEPTION(with(Tensor::from(std::vector<std::int64_t>{1, 2, 1, 1}, {1, 4}))(), Error, [](auto& error) {
    return std::string(error.what()).find("document 1 of row 0 has tokens in two places") != std::string::npos;
  });
  BOOST_CHECK_THROW(with(Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3}))(), Error);
}

BOOST_AUTO_TEST_SUITE_END()
