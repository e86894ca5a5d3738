#include "attention/properties/unseen.h"

#include <limits>

#include "attention/engine/attend.h"
#include "attention/properties/cases.h"
#include "autograd/operations.h"
#include "tensor/error.h"
#include "tensor/kernels.h"

namespace fovea::properties {

namespace {

constexpr std::int64_t B = 2, I = 4, T = 7, d = 6;

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
std::vector<Tensor> results(Attention& attention, Place place, Device device, const Hiding& hiding, bool zeros) {
  Generator generator(5);
  const Tensor states = random_tensor({B, T, d}, generator), queries = random_tensor({B, I, d}, generator);
  const bool is_cross = place == Place::cross;
  Variable key(with_rows(states, hiding.tokens, zeros).to(DType::f32).to(device), true);
  Variable query = is_cross ? Variable(queries.to(DType::f32).to(device), true) : key;
  AttentionInput input = hiding.restriction;
  for (Tensor* x : {&input.key_lengths, &input.allowed})
    if (x->defined()) *x = x->to(device);
  input.query = query, input.key = input.value = key;
  input.mask = Variable(mask_for(attention, query.size(1), T).to(device));
  input.causal = place == Place::decoder;
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
  require(device == Device::cpu || kernels(device).synchronizations() == waits, "the host waited for the device");
  // the readers' own rows may be anything
  Tensor rows = out.value().to(Device::cpu).clone();
  for (const std::int64_t i : hiding.readers) rows.slice(0, 1, 2).slice(1, i, i + 1).fill(0);
  found.insert(found.begin(), rows);
  return found;
}

}  // namespace

bool hidden_states_change_nothing(Attention& attention, Place place, const Hiding& hiding, AttentionEngine engine,
                                  Device device) {
  AttentionEngineScope chosen(engine, 2);
  attention.to(DType::f32);
  attention.to(device);
  std::vector<Tensor> zeros;
  try {
    zeros = results(attention, place, device, hiding, true);
  } catch (const Error&) {
    return false;
  }
  const std::vector<Tensor> others = results(attention, place, device, hiding, false);
  // numbers that are replaced have gradient 0; a zero that is a query or seen may have another one
  zeros[1] = with_rows(zeros[1].to(Device::cpu), hiding.tokens, true);
  for (std::size_t k = 0; k < zeros.size(); ++k)
    require(others[k].to_vector<float>() == zeros[k].to_vector<float>(),
            "NaN, infinities and 1e38 {} change tensor {} (0: output, then gradients of states, parameters), engine {}",
            hiding.name, k, static_cast<int>(engine));
  return true;
}

std::vector<Hiding> hidings_from_all(Place place) {
  AttentionInput lengths, never;
  lengths.key_lengths = lengths_of({T, 4});
  never.allowed = Tensor::from(std::vector<std::uint8_t>{1, 1, 0, 1, 1, 0, 1}, {1, 1, 1, T});
  std::vector<Hiding> all{{.name = "behind key_lengths", .restriction = lengths, .tokens = {4, 5, 6}}};
  if (place == Place::cross)
    all.push_back({.name = "in keys that are not allowed", .restriction = never, .tokens = {2, 5}});
  // in self-attention the hidden tokens are still queries, whose own results are NaN
  if (place == Place::encoder)
    all.push_back(
        {.name = "in tokens that are not allowed", .restriction = never, .tokens = {2, 5}, .readers = {2, 5}});
  return all;
}

std::vector<Hiding> hidings_from_some(Place place) {
  if (place == Place::decoder) return {{.name = "in later tokens", .tokens = {4, 6}, .readers = {4, 5, 6}}};
  AttentionInput restriction;
  if (place == Place::encoder) {
    restriction.documents = Tensor::from(std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 2, 2}, {B, T});
    return {{.name = "in another document", .restriction = restriction, .tokens = {3}, .readers = {2, 3, 4}}};
  }
  std::vector<std::uint8_t> allowed(I * T, 1);
  for (std::size_t i : {0, 2}) allowed[i * T + 3] = 0;
  restriction.allowed = Tensor::from(allowed, {1, 1, I, T});
  return {{.name = "in a key hidden from some queries", .restriction = restriction, .tokens = {3}, .readers = {1, 3}}};
}

namespace {

/// In the composed and the blockwise engine, which say what a key's weight is.
bool hidden_keys_have_no_weight(const Subject& subject) {
  NoGrad off;
  Generator generator(6);
  const Variable key(random_tensor({B, T, d}, generator)), query(random_tensor({B, I, d}, generator));
  const bool is_cross = subject.place == Place::cross;
  bool is_checked = false;
  for (const AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise}) {
    AttentionEngineScope chosen(engine, 2);
    TracedEquationScope equation;
    AttentionTrace trace;
    subject.attention.forward({.query = is_cross ? query : key,
                               .key = key,
                               .value = key,
                               .key_lengths = lengths_of({T, 4}),
                               .mask = mask_for(subject.attention, is_cross ? I : T, T),
                               .causal = subject.place == Place::decoder,
                               .trace = &trace});
    for (const TracedQuantity& seen : trace.quantities) {
      if (seen.name != "seen" || trace.weights.rank() != 4) continue;
      // heads that are mixed give each other weights: a pair that no head sees has none
      const Shape& shape = trace.weights.shape();
      const std::vector<double> is_seen = sum(broadcast_to(seen.value, shape), {1}, true).value().to_vector<double>(),
                                weights = trace.weights.value().to_vector<double>();
      const std::size_t of_head = shape[2] * shape[3], of_sentence = of_head * shape[1];
      for (std::size_t k = 0; k < weights.size(); ++k)
        require(is_seen[k / of_sentence * of_head + k % of_head] > 0 || weights[k] == 0,
                "a key that the query does not see has the weight {} (pair {} of {})", weights[k], k, shape);
      is_checked = true;
    }
  }
  return is_checked;
}

bool hidden_in_all_ways(const Subject& subject, Device device, std::vector<Hiding> hidings(Place)) {
  bool checked = false;
  for (const Hiding& hiding : hidings(subject.place))
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused})
      if (engine != AttentionEngine::fused || device == Device::cpu)
        checked |= hidden_states_change_nothing(subject.attention, subject.place, hiding, engine, device);
  return checked;
}

}  // namespace

std::vector<Property> unseen_properties() {
  auto on = [](Device device, std::vector<Hiding> hidings(Place)) {
    return [=](const Subject& subject) { return hidden_in_all_ways(subject, device, hidings); };
  };
  return {
      {"keys_that_a_query_does_not_see_have_no_weight", hidden_keys_have_no_weight},
      {"keys_that_no_query_sees_do_not_matter", on(Device::cpu, hidings_from_all)},
      {"keys_that_some_queries_see_do_not_matter_to_the_others", on(Device::cpu, hidings_from_some)},
      {"on_a_gpu_keys_that_no_query_sees_do_not_matter", on(Device::cuda, hidings_from_all), true},
      {"on_a_gpu_keys_that_some_queries_see_do_not_matter_to_the_others", on(Device::cuda, hidings_from_some), true}};
}

}  // namespace fovea::properties
