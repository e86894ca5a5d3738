// Decoding step by step gives what one call for all positions gives.
#include <algorithm>
#include <cmath>

#include "attention/properties/inputs.h"
#include "attention/properties/property.h"
#include "autograd/operations/gather.h"

namespace fovea::properties {

namespace {

bool step_by_step_equals_teacher_forcing(const Subject& subject) {
  if (subject.place != Place::decoder) return false;
  Generator generator(14);
  const States states = random_states(subject.place, generator);
  const Tensor whole = subject.attention.forward(input_of(subject, states)).value();
  for (std::int64_t t = 0; t < J; ++t) {
    Tensor prefix = states.key.slice(1, 0, t + 1);
    AttentionInput step{.query = states.key.slice(1, t, t + 1),
                        .key = prefix,
                        .value = prefix,
                        .mask = mask_for(subject.attention, 1, t + 1, t),
                        .causal = true,
                        .query_offset = t};
    require_near(subject.attention.forward(step).value(), whole.slice(1, t, t + 1), 1e-12,
                 fmt::format("the output of step {}, alone and with all others", t));
  }
  return true;
}

/// Whether the attention projects its keys. A memory then keeps the projected source, and only the first call reads the
/// source; a mechanism without projections reads it in every call, also where a method has projections of its own.
bool projects_keys(const Attention& attention) {
  auto is_of_keys = [](std::string_view name) {
    while (name.starts_with("head_")) name.remove_prefix(name.find('.') + 1);  // a mechanism of a combination
    return name == "key.weight";
  };
  const std::vector<NamedParameter> parameters = attention.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const NamedParameter& parameter) { return is_of_keys(parameter.name); });
}

/// The input of queries first ≤ i < end of a call, as a decoder passes it at that step.
AttentionInput step_of(const Subject& subject, const States& states, std::int64_t first, std::int64_t end,
                       DecoderMemory& memory) {
  const Place place = subject.place;
  Tensor query = states.query.slice(1, first, end), key = place == Place::cross ? states.key : query;
  if (place == Place::cross && first > 0 && projects_keys(subject.attention))
    key = Tensor::full(key.shape(), std::nan(""), DType::f64);
  return {.query = query,
          .key = key,
          .value = key,
          .mask = mask_for(subject.attention, end - first, place == Place::cross ? J : end, first),
          .causal = place == Place::decoder,
          .query_offset = first,
          .memory = &memory};
}

bool decoding_with_a_memory_equals_teacher_forcing(const Subject& subject) {
  if (subject.place == Place::encoder) return false;
  Generator generator(20);
  const States states = random_states(subject.place, generator);
  const Tensor whole = subject.attention.forward(input_of(subject, states)).value();
  for (bool recorded : {true, false})
    for (std::int64_t step : {1, 2, 3}) {
      GradMode mode(recorded);
      DecoderMemory memory;
      for (std::int64_t first = 0, T = whole.size(1); first < T; first += step) {
        const std::int64_t end = std::min(first + step, T);
        const Tensor out = subject.attention.forward(step_of(subject, states, first, end, memory)).value();
        require_near(out, whole.slice(1, first, end), 1e-12,
                     fmt::format("the output from position {} in steps of {}, with a memory and at once", first, step));
      }
    }
  return true;
}

bool a_reordered_memory_continues_from_the_parents(const Subject& subject) {
  if (subject.place == Place::encoder) return false;
  Generator generator(22);
  const States states = random_states(subject.place, generator);
  const Tensor whole = subject.attention.forward(input_of(subject, states)).value();
  NoGrad off;
  DecoderMemory memory;
  subject.attention.forward(step_of(subject, states, 0, 2, memory));
  // first more hypotheses, then a permutation, then fewer: of sentences 1, 0, 1; then 1, 1, 0; then 0
  const std::vector<std::vector<std::int64_t>> parents{{1, 0, 1}, {2, 0, 1}, {2}}, sentences{{1, 0, 1}, {1, 1, 0}, {0}};
  for (std::int64_t t = 2; t < whole.size(1); ++t) {
    const auto turn = std::min<std::size_t>(static_cast<std::size_t>(t - 2), 2);
    if (t <= 4) memory.reorder(parents[turn]);
    const Tensor rows = Tensor::from(sentences[turn], {std::ssize(sentences[turn])});
    auto of_sentences = [&](const Tensor& x) {
      return gather_rows(x.reshape({B, x.size(1) * x.size(2)}), rows).reshape({rows.size(0), x.size(1), x.size(2)});
    };
    const States own{of_sentences(states.query), of_sentences(states.key)};
    const Tensor out = subject.attention.forward(step_of(subject, own, t, t + 1, memory)).value();
    require_near(out, of_sentences(whole).slice(1, t, t + 1), 1e-12,
                 fmt::format("the output of step {} after the memory was reordered, and at once", t));
  }
  return true;
}

}  // namespace

std::vector<Property> decoding_properties() {
  return {{"step_by_step_equals_teacher_forcing", step_by_step_equals_teacher_forcing},
          {"decoding_with_a_memory_equals_teacher_forcing", decoding_with_a_memory_equals_teacher_forcing},
          {"a_reordered_memory_continues_from_the_parents", a_reordered_memory_continues_from_the_parents}};
}

}  // namespace fovea::properties
