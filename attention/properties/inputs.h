/// Random inputs of the subjects of properties.
#pragma once
#include "attention/properties/cases.h"
#include "attention/properties/property.h"

namespace fovea::properties {

/// Sentences, queries, keys, width.
inline constexpr std::int64_t B = 2, I = 4, J = 5, d = 6;

/// Queries and keys: the same sequence in self-attention, two sequences in cross-attention.
struct States {
  Tensor query, key;
};
inline States random_states(Place place, Generator& generator) {
  Tensor key = random_tensor({B, J, d}, generator);
  return {place == Place::cross ? random_tensor({B, I, d}, generator) : key, key};
}

inline AttentionInput input_of(const Subject& subject, const States& states, const Tensor& lengths = {}) {
  return {.query = states.query,
          .key = states.key,
          .value = states.key,
          .key_lengths = lengths,
          .mask = mask_for(subject.attention, states.query.size(1), states.key.size(1)),
          .causal = subject.place == Place::decoder};
}

}  // namespace fovea::properties
