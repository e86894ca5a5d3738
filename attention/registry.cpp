#include "attention/registry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "attention/activation.h"
#include "attention/adaptive_span.h"
#include "attention/alibi.h"
#include "attention/dynamic_mask.h"
#include "attention/gaussian.h"
#include "attention/mask.h"
#include "attention/multi_head.h"
#include "attention/relative.h"
#include "attention/rotary.h"
#include "attention/sinks.h"
#include "attention/sliding.h"
#include "attention/soft_cap.h"
#include "attention/specification.h"
#include "attention/static_mask.h"
#include "attention/t5_bias.h"
#include "attention/window.h"
#include "tensor/suggestion.h"

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
  void add_terms(const AttentionContext&, Terms&) override {}
};

/// The catalogue. A new method is one line here.
std::vector<MethodEntry>& catalogue() {
  static std::vector<MethodEntry> methods = {
      method<GlobalAttention>(),      method<RelativePositions>(), method<GaussianLocalness>(),
      method<DifferentiableWindow>(), method<MaskAttention>(),     method<StaticMask>(),
      method<DynamicMask>(),          method<HeadActivation>(),    method<LinearBiases>(),
      method<BucketBias>(),           method<RotaryPositions>(),   method<SlidingWindow>(),
      method<AttentionSinks>(),       method<SoftCap>(),           method<AdaptiveSpan>(),
  };
  return methods;
}

const MethodEntry* find_method(const std::string& name) {
  for (const MethodEntry& entry : catalogue())
    if (name == entry.card.name) return &entry;
  return nullptr;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// Sets options from a specification's text, and says what is wrong with it.
class OptionReader : public OptionVisitor {
 public:
  OptionReader(const std::string& text, const MethodText& method) : text_(text), method_(method) {}

  void number(const char* name, double& value, double lowest, double highest, const char*) override {
    if (const OptionText* option = find(name)) value = parse<double>(*option, lowest, highest, "a number");
  }
  void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest, const char*) override {
    if (const OptionText* option = find(name)) value = parse<std::int64_t>(*option, lowest, highest, "an integer");
  }
  void flag(const char* name, bool& value, const char*) override {
    const OptionText* option = find(name);
    if (!option) return;
    if (option->value != "true" && option->value != "false")
      fail_at(text_, option->value_column, fmt::format("{}={}", name, option->value), "; use true or false");
    value = option->value == "true";
  }
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) override {
    const OptionText* option = find(name);
    if (!option) return;
    auto found = std::find(choices.begin(), choices.end(), option->value);
    if (found == choices.end())
      fail_at(text_, option->value_column, fmt::format("{}={}", name, option->value),
              "; use one of " + quoted_list(choices));
    value = static_cast<int>(found - choices.begin());
  }

  /// After all visits: whatever was written but never asked for does not exist.
  void refuse_unknown() const {
    for (const OptionText& option : method_.options) {
      if (std::count(known_.begin(), known_.end(), option.name)) continue;
      std::string advice = did_you_mean(option.name, known_);
      fail_at(text_, option.name_column, fmt::format("{} has no option '{}'", method_.name, option.name),
              advice.empty() ? "; it has " + quoted_list(known_) : advice);
    }
  }

  const OptionText* find(const std::string& name) {
    known_.push_back(name);
    const OptionText* found = nullptr;
    for (const OptionText& option : method_.options) {
      if (option.name != name) continue;
      if (found) fail_at(text_, option.name_column, fmt::format("option '{}' is given twice", name), "");
      found = &option;
    }
    return found;
  }

 private:
  template <class Number>
  Number parse(const OptionText& option, Number lowest, Number highest, const char* kind) const {
    Number value{};
    const char* end = option.value.data() + option.value.size();
    auto [stop, error] = std::from_chars(option.value.data(), end, value);
    if (error != std::errc() || stop != end || !(lowest <= value && value <= highest))
      fail_at(text_, option.value_column, fmt::format("{}={}", option.name, option.value),
              fmt::format("; use {} from {} to {}", kind, lowest, highest));
    return value;
  }

  const std::string& text_;
  const MethodText& method_;
  std::vector<std::string> known_;
};

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
    rows.push_back({name, quoted_list(choices), choices[static_cast<std::size_t>(value)], meaning});
  }

  std::vector<OptionDescription> rows;
};

/// Numbers from 1, both ends included, as papers count layers and heads.
struct Range {
  int first = 1, last = 0;  ///< last = 0: to the end
  std::size_t column = 0;
};

Range read_range(OptionReader& reader, const std::string& text, const char* name) {
  Range range;
  const OptionText* option = reader.find(name);
  if (!option) return range;
  range.column = option->value_column;
  const char *begin = option->value.data(), *end = begin + option->value.size();
  auto [after_first, error] = std::from_chars(begin, end, range.first);
  range.last = range.first;
  bool good = error == std::errc() && range.first >= 1;
  if (good && after_first != end) {
    auto [after_last, last_error] = std::from_chars(after_first + 1, end, range.last);
    good = *after_first == '-' && last_error == std::errc() && after_last == end && range.last >= range.first;
  }
  if (!good)
    fail_at(text, option->value_column, fmt::format("{}={}", name, option->value), "; use N or FIRST-LAST, from 1");
  return range;
}

/// A method of a specification, its options read, before it is made.
struct PlannedMethod {
  std::string name;
  MethodMaker make;
  Range layers, heads;
};

/// A sum on some of the heads; count 0: on all of them.
struct PlannedGroup {
  std::vector<PlannedMethod> sum;
  int heads = 0;
};

PlannedMethod plan_method(const std::string& text, const MethodText& written) {
  const MethodEntry* entry = find_method(written.name);
  if (!entry) {
    std::vector<std::string> names{"heads"};
    for (const MethodEntry& known : catalogue()) names.emplace_back(known.card.name);
    std::string advice = did_you_mean(written.name, names);
    fail_at(text, written.column, fmt::format("no method '{}'", written.name),
            advice.empty() ? "; there are " + quoted_list(names) : advice);
  }
  OptionReader reader(text, written);
  PlannedMethod plan;
  plan.name = written.name;
  plan.make = entry->configure(reader);
  plan.layers = read_range(reader, text, "layers");
  plan.heads = read_range(reader, text, "heads");
  reader.refuse_unknown();
  return plan;
}

std::vector<PlannedGroup> plan_specification(const std::string& text) {
  std::vector<PlannedGroup> groups;
  for (const MethodText& written : parse_specification(text)) {
    if (written.name != "heads") {
      groups.push_back({{plan_method(text, written)}, 0});
      continue;
    }
    if (written.shares.empty())
      fail_at(text, written.column, "heads() is empty", "; write heads(global*4, gaussian*4)");
    PlannedGroup all_shares;
    int first = 1;
    for (const Share& share : written.shares) {
      for (const MethodText& inner : share.sum) {
        if (inner.name == "heads") fail_at(text, inner.column, "heads(...) inside heads(...)", "");
        PlannedMethod plan = plan_method(text, inner);
        if (plan.heads.last != 0)
          fail_at(text, inner.column, "heads= inside heads(...)", "; the share says which heads");
        plan.heads = {first, first + share.heads - 1, inner.column};
        all_shares.sum.push_back(std::move(plan));
      }
      first += share.heads;
    }
    all_shares.heads = first - 1;
    groups.push_back(std::move(all_shares));
  }
  return groups;
}

/// The methods of this layer; value_dim: of all heads.
std::vector<MultiHeadAttention::Placed> make_methods(const std::string& text, const std::vector<PlannedGroup>& groups,
                                                     const AttentionShape& shape, std::int64_t value_dim) {
  std::vector<MultiHeadAttention::Placed> placed;
  std::map<std::string, int> uses;
  for (const PlannedGroup& group : groups) {
    require(group.heads == 0 || group.heads == shape.heads, "'{}': heads(...) shares out {} heads, the model has {}",
            text, group.heads, shape.heads);
    for (const PlannedMethod& plan : group.sum) {
      require(plan.layers.last <= shape.layers, "'{}': layers={}-{} (column {}), but there are {} layers", text,
              plan.layers.first, plan.layers.last, plan.layers.column, shape.layers);
      require(plan.heads.last <= shape.heads, "'{}': heads={}-{} (column {}), but there are {} heads", text,
              plan.heads.first, plan.heads.last, plan.heads.column, shape.heads);
      int layer = shape.layer + 1;
      if (plan.layers.last != 0 && (layer < plan.layers.first || plan.layers.last < layer)) continue;
      int last = plan.heads.last ? plan.heads.last : shape.heads, count = last - plan.heads.first + 1;
      std::int64_t H = std::max(shape.heads, 1);
      MethodShape method{shape.model_dim, shape.model_dim / H, count, shape.layer, shape.place, value_dim / H};
      int use = ++uses[plan.name];
      std::string name = use == 1 ? plan.name : fmt::format("{}_{}", plan.name, use);
      placed.push_back({plan.make(method), name, plan.heads.first - 1, count});
    }
  }
  return placed;
}

std::unique_ptr<Attention> make_attention(const std::string& text, const std::vector<PlannedGroup>& groups,
                                          const AttentionShape& shape) {
  auto methods = make_methods(text, groups, shape, shape.model_dim);
  std::int64_t value_dim = MultiHeadAttention::surroundings(methods, shape.model_dim).value_dim;
  if (value_dim != shape.model_dim) methods = make_methods(text, groups, shape, value_dim);
  return std::make_unique<MultiHeadAttention>(shape, std::move(methods));
}

}  // namespace

const std::vector<MethodEntry>& registered_methods() { return catalogue(); }

void register_method(MethodEntry entry) {
  require(!find_method(entry.card.name), "register_method: there is a method '{}' already", entry.card.name);
  catalogue().push_back(std::move(entry));
}

std::vector<OptionDescription> describe_options(const MethodEntry& entry) {
  OptionDescriber describer;
  entry.configure(describer);
  return describer.rows;
}

AttentionFactory attention_factory(const std::string& specification) {
  return [text = specification, groups = plan_specification(specification)](const AttentionShape& shape) {
    return make_attention(text, groups, shape);
  };
}

}  // namespace fovea
