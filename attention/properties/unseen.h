/// States that a query does not see change nothing: NaN, infinities and huge numbers behind lengths, `allowed`,
/// documents, causality or windows give bit for bit what zeros in their place give, in the forward and in the backward
/// pass.
#pragma once
#include <string>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/properties/property.h"

namespace fovea::properties {

/// One way to hide keys: the restriction, the hidden tokens, and the queries that still see them.
struct Hiding {
  const char* name;
  AttentionInput restriction = {};         ///< lengths, documents or `allowed`, for 2 sentences of 7 keys, 4 queries
  std::vector<std::int64_t> tokens;        ///< tokens of sentence 1 with states out of range
  std::vector<std::int64_t> readers = {};  ///< queries of sentence 1 that may see these tokens; their cotangent is 0
};

/// Ways to hide keys from all queries of a place.
std::vector<Hiding> hidings_from_all(Place place);
/// Ways to hide keys from some queries of a place, whatever the method is.
std::vector<Hiding> hidings_from_some(Place place);

/// Throws Error if, computed in f32 by an engine on a device, numbers out of range in the hidden tokens change any
/// other result than zeros do. Returns false if the engine cannot compute the attention with zeros. Moves the
/// attention.
bool hidden_states_change_nothing(Attention& attention, Place place, const Hiding& hiding, AttentionEngine engine,
                                  Device device);

}  // namespace fovea::properties
