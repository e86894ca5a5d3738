// Properties of what an attention may read: padding, later tokens and other documents change nothing, and extreme
// logits give finite numbers.
#include <algorithm>
#include <cmath>

#include "attention/engine/attend.h"
#include "attention/properties/inputs.h"
#include "attention/properties/property.h"
#include "autograd/operations.h"
#include "tensor/error.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"

namespace fovea::properties {

namespace {

/// Throws Error if the sum of the numbers, and so one of them, is not finite.
void require_finite(const Variable& x, const std::string& what) {
  const double total = sum(x).item();
  require(std::isfinite(total), "{} has numbers that are not finite: their sum is {}", what, total);
}

bool padding_changes_nothing(const Subject& subject) {
  const auto& [specification, place, attention] = subject;
  Generator generator(12);
  States states = random_states(place, generator);
  Tensor padded = random_tensor({B, J + 3, d}, generator, 50, 100);  // large numbers in the padding
  padded.slice(1, 0, J).copy_from(states.key);
  States longer{place == Place::cross ? states.query : padded, padded};
  const Tensor plain = attention.forward(input_of(subject, states, lengths_of({5, 3}))).value();
  const Tensor with_pads = attention.forward(input_of(subject, longer, lengths_of({5, 3}))).value();
  for (std::int64_t b = 0; b < B; ++b) {
    // The second sentence has three real words: in self-attention only their rows are compared.
    const std::int64_t rows = place != Place::cross && b == 1 ? 3 : plain.size(1);
    auto of_sentence = [&](const Tensor& x) { return x.slice(0, b, b + 1).slice(1, 0, rows); };
    require_near(of_sentence(plain), of_sentence(with_pads), 1e-12,
                 fmt::format("the output for sentence {}, without and with padding", b));
  }
  return true;
}

bool padding_changes_no_gradient(const Subject& subject) {
  Attention& attention = subject.attention;
  const Place place = subject.place;
  Generator generator(12);
  States states = random_states(place, generator);
  const Tensor lengths = lengths_of({J, 3});
  const std::int64_t rows = states.query.size(1);
  // the outputs of padded queries get no gradient
  Tensor cotangent = random_tensor({B, rows, attention.output_dim()}, generator);
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
    AttentionInput input = input_of(subject, {query.value(), key.value()}, lengths);
    input.query = query;
    input.key = input.value = key;
    Variable output = slice(attention.forward(input), 1, 0, rows);
    std::vector<Tensor> found;
    for (const Variable& gradient : grad(output, leaves, cotangent)) found.push_back(gradient.value());
    return found;
  };
  const std::vector<Tensor> plain = gradients_of(0), with_pads = gradients_of(3);
  for (std::size_t k = 0; k < plain.size(); ++k) {
    const Tensor real = k < 2 ? with_pads[k].slice(1, 0, plain[k].size(1)) : with_pads[k];
    require_near(plain[k], real, 1e-12,
                 fmt::format("gradient {} (0: keys, 1: queries, then parameters), without and with padding", k));
  }
  require_near(with_pads[0].slice(1, J, J + 3), Tensor::zeros({B, 3, d}, DType::f64), 0,
               "the gradient of the padding, and 0");
  return true;
}

bool later_tokens_change_nothing_in_causal_attention(const Subject& subject) {
  if (subject.place != Place::decoder) return false;
  Generator generator(13);
  States states = random_states(subject.place, generator);
  const Tensor before = subject.attention.forward(input_of(subject, states)).value();
  for (std::int64_t t = 0; t + 1 < J; ++t) {
    States changed{states.key.clone(), {}};
    changed.query.slice(1, t + 1, J).copy_from(random_tensor({B, J - t - 1, d}, generator, -20, 20));
    changed.key = changed.query;
    const Tensor after = subject.attention.forward(input_of(subject, changed)).value();
    require_near(before.slice(1, 0, t + 1), after.slice(1, 0, t + 1), 1e-12,
                 fmt::format("the output up to token {}, before and after a change of later tokens", t));
  }
  return true;
}

bool a_sentence_with_no_keys_gives_the_output_bias(const Subject& subject) {
  const auto& [specification, place, attention] = subject;
  Generator generator(15);
  States states = random_states(place, generator);
  AttentionInput input = input_of(subject, states, lengths_of({0, 4}));
  if (!plan_of(attention, input).extra_keys.empty()) return false;  // they are seen even without tokens
  Variable query(states.query, true), key = place == Place::cross ? Variable(states.key, true) : query;
  input.query = query;
  input.key = input.value = key;
  Variable out = attention.forward(input);
  for (auto& parameter : attention.parameters())
    if (parameter.name == "output.bias")
      require_near(out.value().slice(0, 0, 1), parameter.variable.value().expand({1, out.size(1), d}), 1e-15,
                   "the output for a sentence without keys, and the bias of W^O");
  const Variable gradient = grad(sum(square(out)), {query})[0];
  require_near(gradient.value().slice(0, 0, 1), Tensor::zeros({1, query.size(1), d}, DType::f64), 0,
               "the gradient of the queries of a sentence without keys, and 0");
  require_finite(gradient, "the gradient of the queries");
  return true;
}

bool huge_logits_stay_finite(const Subject& subject) {
  Generator generator(16);
  States states = random_states(subject.place, generator);
  Variable query(map(Affine{1e4, 0}, states.query), true);
  Variable key = subject.place == Place::cross ? Variable(map(Affine{1e4, 0}, states.key), true) : query;
  AttentionInput input = input_of(subject, states);
  input.query = query;
  input.key = input.value = key;
  Variable out = subject.attention.forward(input);
  require_finite(out, "the output for states of 1e4");
  require_finite(grad(sum(out), {query})[0], "the gradient of queries of 1e4");
  return true;
}

bool rows_of_two_thousand_keys_stay_finite(const Subject& subject) {
  if (subject.place == Place::encoder) return false;  // one place of self-attention is enough for so many pairs
  Generator generator(18);
  Variable x(random_tensor({1, 2000, d}, generator), true);
  Variable out = subject.attention.forward({.query = x,
                                            .key = x,
                                            .value = x,
                                            .mask = mask_for(subject.attention, 2000, 2000),
                                            .causal = subject.place == Place::decoder});
  require_finite(out, "the output for 2000 keys");
  require_finite(grad(sum(out), {x})[0], "the gradient of 2000 tokens");
  return true;
}

bool the_traced_weights_are_the_coefficients_of_the_values(const Subject& subject) {
  Generator generator(17);
  States states = random_states(subject.place, generator);
  AttentionTrace trace;
  AttentionInput input = input_of(subject, states, lengths_of({5, 3}));
  input.trace = &trace;
  subject.attention.forward(input);
  require(trace.weights.defined(), "the trace has no weights");
  Shape shape = trace.weights.shape();
  if (shape.rank() == 5) shape.erase(4);  // weights for each dimension of the values
  const Shape expected{B, subject.attention.heads(), states.query.size(1), J};
  require(shape == expected, "the traced weights are {}, expected {}", trace.weights.shape().str(), expected.str());
  Tensor pads = trace.weights.value().slice(0, 1, 2).slice(3, 3, J);
  require_near(pads, Tensor::zeros(pads.shape(), DType::f64), 0, "the traced weights of padding, and 0");
  return true;
}

/// Two documents of 3 and 4 tokens in one row, with padding after them.
bool documents_in_one_row_give_the_results_of_separate_rows(const Subject& subject) {
  if (subject.place == Place::cross) return false;
  constexpr std::int64_t first = 3, second = 4, padding = 2;
  Generator generator(21);
  const Tensor row = random_tensor({1, first + second + padding, d}, generator);
  const Tensor documents = Tensor::from(std::vector<std::int64_t>{5, 5, 5, 2, 2, 2, 2, 9, 9}, {1, 9});
  const Tensor mask = mask_for(subject.attention, 9, 9);
  auto run = [&](std::int64_t begin, std::int64_t end, bool packed) {
    Variable x(row.slice(1, begin, end));
    return subject.attention
        .forward({.query = x,
                  .key = x,
                  .value = x,
                  .key_lengths = Tensor::full({1}, double(packed ? first + second : end - begin), DType::i32),
                  .documents = packed ? documents : Tensor(),
                  .mask = mask.slice(2, begin, end).slice(3, begin, end),
                  .causal = subject.place == Place::decoder})
        .value();
  };
  Tensor together;
  try {
    together = run(0, 9, true);
  } catch (const Error& error) {  // location scores, segments
    if (std::string(error.what()).find("documents in one row") == std::string::npos) throw;
    return false;
  }
  require_near(together.slice(1, 0, first), run(0, first, false), 1e-12, "the output for the first document");
  require_near(together.slice(1, first, first + second), run(first, first + second, false), 1e-12,
               "the output for the second document");
  return true;
}

}  // namespace

std::vector<Property> state_properties() {
  return {
      {"padding_changes_nothing", padding_changes_nothing},
      {"padding_changes_no_gradient", padding_changes_no_gradient},
      {"later_tokens_change_nothing_in_causal_attention", later_tokens_change_nothing_in_causal_attention},
      {"a_sentence_with_no_keys_gives_the_output_bias", a_sentence_with_no_keys_gives_the_output_bias},
      {"huge_logits_stay_finite", huge_logits_stay_finite},
      {"rows_of_two_thousand_keys_stay_finite", rows_of_two_thousand_keys_stay_finite},
      {"the_traced_weights_are_the_coefficients_of_the_values", the_traced_weights_are_the_coefficients_of_the_values},
      {"documents_in_one_row_give_the_results_of_separate_rows",
       documents_in_one_row_give_the_results_of_separate_rows}};
}

}  // namespace fovea::properties
