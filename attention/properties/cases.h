/// Small attentions with random parameters, and inputs for them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "attention/plan.h"
#include "attention/registry.h"
#include "tensor/random.h"

namespace fovea::properties {

/// Uniform numbers in [low, high), f64.
Tensor random_tensor(const Shape& shape, Generator& generator, double low = -1, double high = 1);

/// i32 [B].
Tensor lengths_of(const std::vector<std::int32_t>& lengths);

/// The attention of states of width six with two heads, three wide unless `head_dim` is given, in the first of two
/// layers, in f64. Every parameter is random, so that none is 0 or 1. Throws Error if the attention is not defined in
/// this place.
std::unique_ptr<Attention> random_attention(const std::string& specification, Place place, std::uint64_t seed = 3,
                                            std::int64_t head_dim = 0);

/// A mask for the methods that read one, [1, 2, I, J], without symmetry and with a fifth of its entries 0. Entry (i, j)
/// does not depend on I and J.
Tensor test_mask(std::int64_t I, std::int64_t J, std::int64_t query_offset = 0);
/// The same for all heads of an attention, [1, H, I, J]: the mask of head h is test_mask()'s of head h mod 2.
Tensor mask_for(const Attention& attention, std::int64_t I, std::int64_t J, std::int64_t query_offset = 0);

/// Collects, for each option that is a choice or a flag, the values that are not its default.
class Alternatives : public OptionVisitor {
 public:
  void number(const char*, double&, double, double, const char*) override {}
  void integer(const char*, std::int64_t&, std::int64_t, std::int64_t, const char*) override {}
  void flag(const char* name, bool& value, const char*) override;
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) override;
  std::vector<std::string> found;
};

/// A method with its defaults and with every single change of a choice or flag.
std::vector<std::string> specifications_of(const MethodEntry& entry);
/// specifications_of(), then the method in sums and on some heads only.
std::vector<std::string> specifications_with_sums(const MethodEntry& entry);

const std::vector<Place>& all_places();

/// The attention; null if it is not defined in this place or the engine of this thread cannot compute it.
std::unique_ptr<Attention> usable_attention(const std::string& specification, Place place);

/// The plan of a call; empty if the attention is not a MultiHeadAttention but, for example, a combination.
Plan plan_of(Attention& attention, const AttentionInput& input);

/// Whether the fused engine can compute this attention, in a place where it is defined.
bool has_fused_form(const std::string& specification);

}  // namespace fovea::properties
