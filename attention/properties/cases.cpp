#include "attention/properties/cases.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "attention/engine/attend.h"
#include "attention/layers/multi_head.h"

namespace fovea::properties {

Tensor random_tensor(const Shape& shape, Generator& generator, double low, double high) {
  Tensor out = Tensor::empty(shape, DType::f64);
  fill_uniform(out, generator, low, high);
  return out;
}

Tensor lengths_of(const std::vector<std::int32_t>& lengths) { return Tensor::from(lengths, {std::ssize(lengths)}); }

std::unique_ptr<Attention> random_attention(const std::string& specification, Place place, std::uint64_t seed,
                                            std::int64_t head_dim) {
  AttentionShape shape{.model_dim = 6, .heads = 2, .head_dim = head_dim, .layer = 0, .layers = 2, .place = place};
  auto attention = attention_factory(specification)(shape);
  attention->to(DType::f64);
  Generator generator(seed);
  for (auto& parameter : attention->parameters()) {
    Variable variable = parameter.variable;
    variable.value().copy_from(random_tensor(variable.shape(), generator));
  }
  attention->train(false);
  return attention;
}

Tensor test_mask(std::int64_t I, std::int64_t J, std::int64_t query_offset) {
  std::vector<double> values;
  for (int h = 0; h < 2; ++h)
    for (std::int64_t i = query_offset; i < query_offset + I; ++i)
      for (std::int64_t j = 0; j < J; ++j)
        values.push_back((2 * i + j + h) % 5 == 1 ? 0 : static_cast<double>((7 * i + 3 * j + 5 * h) % 11 + 1) / 11);
  return Tensor::from(values, {1, 2, I, J});
}

Tensor mask_for(const Attention& attention, std::int64_t I, std::int64_t J, std::int64_t query_offset) {
  const Tensor two = test_mask(I, J, query_offset);
  const Tensor mask = Tensor::empty({1, attention.heads(), I, J}, DType::f64);
  for (std::int64_t h = 0; h < attention.heads(); ++h)
    mask.slice(1, h, h + 1).copy_from(two.slice(1, h % 2, h % 2 + 1));
  return mask;
}

void Alternatives::flag(const char* name, bool& value, const char*) {
  found.push_back(std::string(name) + (value ? "=false" : "=true"));
}

void Alternatives::choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) {
  for (std::size_t k = 0; k < choices.size(); ++k)
    if (static_cast<int>(k) != value) found.push_back(std::string(name) + "=" + choices[k]);
}

std::vector<std::string> specifications_of(const MethodEntry& entry) {
  const std::string name = entry.card.name;
  std::vector<std::string> specifications{name};
  Alternatives alternatives;
  entry.configure(alternatives);
  for (const std::string& change : alternatives.found) specifications.push_back(name + "(" + change + ")");
  return specifications;
}

std::vector<std::string> specifications_with_sums(const MethodEntry& entry) {
  std::vector<std::string> specifications = specifications_of(entry);
  for (const char* sum : {"{}+gaussian+relative(clip=2)", "sliding(left=1,right=1)+{}", "heads({}*1, window*1)"})
    specifications.push_back(fmt::format(fmt::runtime(sum), entry.card.name));
  return specifications;
}

const std::vector<Place>& all_places() {
  static const std::vector<Place> places{Place::encoder, Place::decoder, Place::cross};
  return places;
}

std::unique_ptr<Attention> usable_attention(const std::string& specification, Place place) try {
  auto attention = random_attention(specification, place);
  Generator generator(1);
  Variable x(random_tensor({1, 3, 6}, generator));
  const Tensor mask = mask_for(*attention, 3, 3);
  attention->forward({.query = x, .key = x, .value = x, .mask = mask, .causal = place == Place::decoder});
  return attention;
} catch (const Error&) {
  return nullptr;
}

Plan plan_of(Attention& attention, const AttentionInput& input) {
  auto* heads = dynamic_cast<MultiHeadAttention*>(&attention);
  return heads ? heads->call(input).plan : Plan{};
}

bool has_fused_form(const std::string& specification) {
  static std::map<std::string, bool> known;
  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  if (auto found = known.find(specification); found != known.end()) return found->second;
  AttentionEngineScope fused(AttentionEngine::fused);
  return known[specification] = std::any_of(all_places().begin(), all_places().end(), [&](Place place) {
           return usable_attention(specification, place) != nullptr;
         });
}

}  // namespace fovea::properties
