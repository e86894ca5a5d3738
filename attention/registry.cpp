#include "attention/registry.h"

#include "attention/language/formula_text.h"
#include "attention/layers/mechanism.h"
#include "attention/methods/activation.h"
#include "attention/methods/adaptive_span.h"
#include "attention/methods/alibi.h"
#include "attention/methods/cope.h"
#include "attention/methods/differential.h"
#include "attention/methods/dynamic_mask.h"
#include "attention/methods/fine_grained.h"
#include "attention/methods/flexible.h"
#include "attention/methods/forgetting.h"
#include "attention/methods/gate.h"
#include "attention/methods/gaussian.h"
#include "attention/methods/grouped.h"
#include "attention/methods/light_convolution.h"
#include "attention/methods/linear.h"
#include "attention/methods/local.h"
#include "attention/methods/location_weights.h"
#include "attention/methods/mask.h"
#include "attention/methods/persistent.h"
#include "attention/methods/relative.h"
#include "attention/methods/relative_2d.h"
#include "attention/methods/rotary.h"
#include "attention/methods/score.h"
#include "attention/methods/sinks.h"
#include "attention/methods/sliding.h"
#include "attention/methods/soft_cap.h"
#include "attention/methods/sparsemax.h"
#include "attention/methods/static_mask.h"
#include "attention/methods/t5_bias.h"
#include "attention/methods/talking_heads.h"
#include "attention/methods/window.h"

namespace fovea {

namespace {

/// Plain scaled dot-product attention: no terms.
class GlobalAttention : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"global", "plain multi-head attention", "Vaswani et al. 2017, eq. 1",
                                      "z_ij = q_i . k_j / sqrt(D)"};
  static void visit(OptionVisitor&, Options&) {}
  GlobalAttention(const MethodShape&, const Options&) {}
  bool has_independent_queries() const override { return true; }
  void add_terms(const AttentionContext&, Plan&) override {}
};

/// The catalogue. A new method is one line here.
std::vector<MethodEntry>& catalogue() {
  static std::vector<MethodEntry> methods = {
      method<GlobalAttention>(),
      method<RelativePositions>(),
      method<GaussianLocalness>(),
      method<DifferentiableWindow>(),
      method<MaskAttention>(),
      method<StaticMask>(),
      method<DynamicMask>(),
      method<HeadActivation>(),
      method<LinearBiases>(),
      method<BucketBias>(),
      method<RotaryPositions>(),
      method<SlidingWindow>(),
      method<AttentionSinks>(),
      method<SoftCap>(),
      method<AdaptiveSpan>(),
      method<DotProduct>(),
      method<ScaledDotProduct>(),
      method<GeneralProduct>(),
      method<AdditiveScoring>(),
      method<LocationScoring>(),
      method<MeanWeights>(),
      method<LaplaceWeights>(),
      method<GaussianWeights>(),
      method<LocalMonotonic>(),
      method<LocalPredictive>(),
      method<FineGrained>(),
      method<FlexibleAttention>(),
      // methods that replace the softmax, combine heads, or change the heads' inputs and outputs
      method<Sparsemax>(),
      method<TalkingHeads>(),
      method<DifferentialAttention>(),
      method<GatedHeads>(),
      method<GroupedQueries>(),
      method<ForgettingAttention>(),
      method<ContextualPositions>(),
      method<Relative2d>(),
      method<PersistentMemory>(),
      method<LightConvolution>(),
      method<LinearAttention>(),
  };
  return methods;
}

class OptionDescriber : public OptionVisitor {
 public:
  void number(const char* name, double& value, double lowest, double highest, const char* meaning) override {
    rows.push_back({name, fmt::format("{} to {}", lowest, highest), fmt::format("{}", value), meaning});
  }
  void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
               const char* meaning) override {
    rows.push_back({name, fmt::format("{} to {}", lowest, highest), fmt::format("{}", value), meaning});
  }
  void flag(const char* name, bool& value, const char* meaning) override {
    rows.push_back({name, "true, false", value ? "true" : "false", meaning});
  }
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char* meaning) override {
    rows.push_back({name, listed(choices), choices[static_cast<std::size_t>(value)], meaning});
  }

  std::vector<OptionDescription> rows;
};

}  // namespace

const std::vector<MethodEntry>& registered_methods() { return catalogue(); }

const MethodEntry* find_method(const std::string& name) {
  for (const MethodEntry& entry : catalogue())
    if (name == entry.card.name) return &entry;
  return nullptr;
}

const std::vector<Combination>& combinations() {
  static const std::vector<Combination> all = {
      combination<Classic>(),
      combination<MultiHead>(),
      combination<AverageAttention>(),
      combination<ConcatAttention>(),
  };
  return all;
}

const Combination* find_combination(const std::string& name) {
  for (const Combination& entry : combinations())
    if (name == entry.card.name) return &entry;
  return nullptr;
}

void require_free_name(const std::string& name) {
  require(!find_method(name) && !find_combination(name) && name != "heads" && name != formula_word,
          "there is a method '{}' already; choose another name", name);
}

void register_method(MethodEntry entry) {
  require_free_name(entry.card.name);
  catalogue().push_back(std::move(entry));
}

std::vector<OptionDescription> describe_options(const MethodEntry& entry) {
  OptionDescriber describer;
  entry.configure(describer);
  return describer.rows;
}

std::vector<OptionDescription> describe_options(const Combination& entry) {
  OptionDescriber describer;
  entry.configure(describer);
  return describer.rows;
}

}  // namespace fovea
