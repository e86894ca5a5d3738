// Constructs attentions from the text of a specification. All names and options of the text are checked first, so that
// a mistake is found before any model is constructed.
#include <algorithm>
#include <map>
#include <sstream>

#include "attention/language/formula_text.h"
#include "attention/layers/context.h"
#include "attention/layers/mechanism.h"
#include "attention/layers/multi_head.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

namespace {

/// An interval of layers or heads, counted from 1 with both ends included, as in papers.
struct Range {
  int first = 1, last = 0;   ///< last = 0: up to the last layer or head
  std::size_t column = 0;    ///< column of the specification, for error messages
  std::string written = {};  ///< "layers=1-3", for error messages
};

/// Reads the option `name`, whose value is N or FIRST-LAST. Without the option: all layers or heads. Throws Error for a
/// value of another form.
Range read_range(OptionReader& reader, const std::string& text, const char* name) {
  Range range;
  const OptionText* option = reader.find(name);
  if (!option) return range;
  range.column = option->value_column;
  range.written = option->written();
  TextReader value(option->value);
  range.first = value.number<int>().value_or(0);
  range.last = value.take("-") ? value.number<int>().value_or(0) : range.first;
  if (range.first < 1 || range.last < range.first || !value.at_end())
    fail_at(text, option->value_column, option->written(), "; use N or FIRST-LAST, from 1");
  return range;
}

/// A method of the specification, with its options parsed; `make` constructs it.
struct PlannedMethod {
  std::string name;
  MethodMaker make;
  Range layers, heads;
};

/// A term of the sum: one method, or the methods of all shares of heads(...).
struct PlannedGroup {
  std::vector<PlannedMethod> sum;
  int heads = 0;  ///< number of heads that heads(...) distributes; 0: not heads(...)
};

/// Throws Error for a name that is not a method's; the message suggests similar names.
[[noreturn]] void refuse_name(const std::string& text, const MethodText& written) {
  if (find_combination(written.name))
    fail_at(text, written.column, written.name + "(...) cannot be a term of a sum",
            "; put the sum inside it: " + written.name + "(dot + gaussian)");
  std::vector<std::string> names{"heads", formula_word};
  for (const MethodEntry& known : registered_methods()) names.emplace_back(known.card.name);
  for (const Combination& known : combinations()) names.emplace_back(known.card.name);
  std::string advice = did_you_mean(written.name, names);
  fail_at(text, written.column, "no method " + in_quotes(written.name),
          advice.empty() ? "; attend --list prints all methods" : advice);
}

PlannedMethod plan_method(const std::string& text, const MethodText& written) {
  const MethodEntry* entry = find_method(written.name);
  if (!entry && written.name != formula_word) refuse_name(text, written);
  OptionReader reader(text, written);
  PlannedMethod plan;
  plan.name = written.name;
  plan.make = entry ? entry->configure(reader) : formula_maker(text, written, reader);
  plan.layers = read_range(reader, text, "layers");
  plan.heads = read_range(reader, text, "heads");
  reader.refuse_unknown();
  return plan;
}

/// Throws Error for options of heads(...), which belong to the methods inside.
void refuse_options_of_heads(const std::string& text, const MethodText& heads) {
  for (const OptionText& option : heads.options)
    fail_at(text, option.name_column, "heads(...) has no option " + in_quotes(option.name),
            option.name == "heads" ? "; it assigns all heads"
                                   : "; give it to methods inside, as in heads(gaussian(layers=1)*4)");
}

std::vector<PlannedGroup> plan_sum(const std::string& text, const std::vector<MethodText>& sum) {
  std::vector<PlannedGroup> groups;
  for (const MethodText& written : sum) {
    if (written.name != "heads") {
      groups.push_back({{plan_method(text, written)}, 0});
      continue;
    }
    refuse_options_of_heads(text, written);
    if (written.shares.empty())
      fail_at(text, written.column, "heads() is empty", "; write heads(global*4, gaussian*4)");
    PlannedGroup all_shares;
    int first = 1;
    for (const Share& share : written.shares) {
      for (const MethodText& inner : share.sum) {
        if (inner.name == "heads")
          fail_at(text, inner.column, "heads(...) inside heads(...)", "; one of them assigns all heads");
        PlannedMethod plan = plan_method(text, inner);
        if (plan.heads.last != 0)
          fail_at(text, inner.column, "heads= inside heads(...)", "; heads(...) already assigns the heads");
        plan.heads = {first, first + share.heads - 1, inner.column, inner.name};
        all_shares.sum.push_back(std::move(plan));
      }
      first += share.heads;
    }
    all_shares.heads = first - 1;
    groups.push_back(std::move(all_shares));
  }
  return groups;
}

/// Throws Error if the range ends beyond the `count` layers or heads that there are.
void require_in(const std::string& text, const Range& range, int count, const char* noun) {
  if (range.last > count)
    fail_at(text, range.column, range.written,
            fmt::format(", but there {} {} {}{}", count == 1 ? "is" : "are", count, noun, count == 1 ? "" : "s"));
}

/// Whether a method acts on layer shape.layer. Throws Error for layers that the model does not have.
bool is_on_layer(const std::string& text, const PlannedMethod& plan, const AttentionShape& shape) {
  require_in(text, plan.layers, shape.layers, "layer");
  int layer = shape.layer + 1;
  return plan.layers.last == 0 || (plan.layers.first <= layer && layer <= plan.layers.last);
}

/// Constructs the methods that act on this layer. method_shape(heads) is the shape of a method on this number of heads.
/// Throws Error for layers or heads that the model does not have.
template <class ShapeOfMethod>
PlacedMethods make_methods(const std::string& text, const std::vector<PlannedGroup>& groups,
                           const AttentionShape& shape, const ShapeOfMethod& method_shape) {
  PlacedMethods placed;
  std::map<std::string, int>
      uses;  // a method that occurs several times is called gaussian, gaussian_2, gaussian_3, ...
  for (const PlannedGroup& group : groups) {
    for (const PlannedMethod& plan : group.sum) {
      require_in(text, plan.heads, shape.heads, "head");
      if (!is_on_layer(text, plan, shape)) continue;
      int last = plan.heads.last ? plan.heads.last : shape.heads, count = last - plan.heads.first + 1;
      const int use = ++uses[plan.name];
      placed.push_back({plan.make(method_shape(count)), use == 1 ? plan.name : fmt::format("{}_{}", plan.name, use),
                        plan.heads.first - 1, count});
    }
  }
  return placed;
}

// ---- Projected multi-head attention

/// The shape for a method on `heads` heads. value_dim is the width of all heads together.
MethodShape shape_of_projected(const AttentionShape& shape, int heads, std::int64_t value_dim) {
  const std::int64_t head_dim = shape.width_of_head();
  return {.model_dim = shape.model_dim,
          .head_dim = head_dim,
          .all_heads = shape.heads,
          .heads = heads,
          .layer = shape.layer,
          .place = shape.place,
          .query_dim = head_dim,
          .key_dim = head_dim,
          .value_dim = value_dim / std::max(shape.heads, 1),
          .step_dim = shape.step_dim,
          .key_state_dim = with_widths(shape).key_dim};
}

/// Constructs multi-head attention. A method may change the width of the values (activation), on which the shapes of
/// the other methods' parameters depend; all methods are then constructed a second time, with that width.
std::unique_ptr<Attention> make_projected(const std::string& text, const std::vector<PlannedGroup>& groups,
                                          const AttentionShape& shape) {
  const auto methods_of_width = [&](std::int64_t value_dim) {
    return make_methods(text, groups, shape, [&](int heads) { return shape_of_projected(shape, heads, value_dim); });
  };
  const std::int64_t usual_dim = shape.heads * shape.width_of_head();
  PlacedMethods methods = methods_of_width(usual_dim);
  const std::int64_t value_dim = surroundings_of(methods, usual_dim).value_dim;
  if (value_dim != usual_dim) methods = methods_of_width(value_dim);
  return std::make_unique<MultiHeadAttention>(shape, std::move(methods));
}

/// Throws Error where heads(...) assigns another number of heads than `owner` has.
void require_heads(const std::string& shown, const std::vector<PlannedGroup>& groups, int heads,
                   const std::string& owner) {
  for (const PlannedGroup& group : groups)
    require(group.heads == 0 || group.heads == heads, "{}: heads(...) assigns {} heads, but {} has {}", shown,
            group.heads, owner, heads);
}

/// Plans a sum with projections. `column` is that of the multi_head(...) around it; 0 if the sum is the whole
/// specification.
AttentionFactory plan_projected(const std::string& text, const std::vector<MethodText>& sum, std::size_t column = 0) {
  return [=, groups = plan_sum(text, sum)](const AttentionShape& shape) {
    std::string owner = column == 0 ? "the model" : fmt::format("multi_head (column {})", column);
    const std::string shown = in_quotes_around(text, column);
    require_heads(shown, groups, shape.heads, owner);
    require(0 <= shape.head_dim && shape.head_dim <= INT32_MAX,
            "{}: {} has heads of width {} (head_dim); it must be at least 1 and below 2^31, or 0 for d / H", shown,
            owner, shape.head_dim);
    if (column > 0) {
      const std::int64_t d = shape.model_dim, query_dim = with_widths(shape).query_dim;
      require(query_dim == d, "{}: {} has queries {} wide; they must be as wide as the model, {}", shown, owner,
              query_dim, d);
      require(shape.heads > 0 && (shape.head_dim > 0 || d % shape.heads == 0),
              "{}: {} has {} heads, which do not divide the width {}; heads=N sets them", shown, owner, shape.heads, d);
    }
    return make_projected(text, groups, shape);
  };
}

// ---- Attention without projections, and combinations

/// Plans a sum without projections, on AttentionShape::heads heads. `column` is that of the combination around it.
AttentionFactory plan_classic(const std::string& text, const std::vector<MethodText>& sum, std::size_t column) {
  return [=, groups = plan_sum(text, sum)](const AttentionShape& shape) {
    require_heads(in_quotes_around(text, column), groups, shape.heads, fmt::format("classic (column {})", column));
    return std::make_unique<ClassicAttention>(shape, make_methods(text, groups, shape, [&](int heads) {
                                                return ClassicAttention::method_shape(shape, heads);
                                              }));
  };
}

/// One mechanism of a combination.
struct PlannedMechanism {
  AttentionFactory make;
  std::size_t sums;     ///< number of sums that the mechanism consists of, including those of nested combinations
  std::size_t methods;  ///< number of methods in these sums
};

PlannedMechanism plan_combination(const std::string& text, const MethodText& written);

/// Plans a mechanism of average(...) or concat(...): a nested combination, or a sum on one head.
PlannedMechanism plan_mechanism(const std::string& text, const std::vector<MethodText>& sum, std::size_t column) {
  if (sum.size() == 1 && find_combination(sum[0].name)) return plan_combination(text, sum[0]);
  for (const MethodText& written : sum) {
    if (written.name == "heads")
      fail_at(text, written.column, "heads(...) in attention of one head", "; use average(...) or concat(...)");
    for (const OptionText& option : written.options)
      if (option.name == "heads")
        fail_at(text, option.value_column, "heads= in attention of one head", "; multi_head(...) has several heads");
  }
  return {[make = plan_classic(text, sum, column)](AttentionShape shape) {
            shape.heads = 1;
            return make(shape);
          },
          1, all_methods(sum).size()};
}

PlannedMechanism plan_combination(const std::string& text, const MethodText& written) {
  constexpr std::size_t most_sums = 1024, most_methods = 4096;
  const bool projected = written.name == MultiHead::card.name, one = projected || written.name == Classic::card.name;
  const auto plan_share = [&](const std::vector<MethodText>& sum) -> PlannedMechanism {
    if (projected) return {plan_projected(text, sum, written.column), 1, all_methods(sum).size()};
    return one ? PlannedMechanism{plan_classic(text, sum, written.column), 1, sum.size()}
               : plan_mechanism(text, sum, written.column);
  };
  OptionReader reader(text, written);
  CombinationMaker make = find_combination(written.name)->configure(reader);
  reader.refuse_unknown();
  std::vector<AttentionFactory> mechanisms;
  std::size_t sums = 0, methods = 0;
  for (const Share& share : written.shares) {
    const PlannedMechanism mechanism = plan_share(share.sum);
    auto count = static_cast<std::size_t>(share.heads);
    sums += count * mechanism.sums;
    methods += count * mechanism.methods;
    if (sums > most_sums)
      fail_at(text, written.column, fmt::format("{} mechanisms", sums), fmt::format("; at most {}", most_sums));
    if (methods > most_methods)
      fail_at(text, written.column, fmt::format("{} methods in all mechanisms", methods),
              fmt::format("; at most {}", most_methods));
    mechanisms.insert(mechanisms.end(), count, mechanism.make);
  }
  if (mechanisms.empty())
    fail_at(text, written.column, written.name + "() is empty", fmt::format("; write {}(additive)", written.name));
  if (mechanisms.size() > 1 && one)
    fail_at(text, written.column, written.name + "(...) takes one mechanism",
            "; use average(...) or concat(...) for several");
  return {[=](const AttentionShape& shape) { return make(shape, mechanisms); }, sums, methods};
}

}  // namespace

AttentionFactory attention_factory(const std::string& specification) {
  std::vector<MethodText> sum = parse_specification(specification);
  if (sum.size() == 1 && find_combination(sum[0].name)) return plan_combination(specification, sum[0]).make;
  return plan_projected(specification, sum);
}

std::vector<ReadInput> inputs_of(const std::string& specification) {
  std::vector<ReadInput> inputs;
  const std::vector<MethodText> sum = parse_specification(specification);
  for (const MethodText* method : all_methods(sum)) {
    const MethodEntry* entry = find_method(method->name);
    if (!entry) continue;
    const std::string with = entry->card.reads_with;
    const bool always = with.empty() || std::any_of(method->options.begin(), method->options.end(),
                                                    [&](const auto& option) { return option.written() == with; });
    std::istringstream names(entry->card.reads);
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
      auto known = std::find_if(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name == name; });
      if (known == inputs.end()) known = inputs.insert(known, {name, with, false});
      known->always = known->always || always;
    }
  }
  return inputs;
}

}  // namespace fovea
