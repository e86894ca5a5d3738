/// The registry of localness methods, and the construction of an attention from a specification, one line of text:
///
///   specification = sum | combination
///   sum           = term { "+" term }
///   term          = name [ "(" option { "," option } ")" ]     gaussian(window=query, layers=1-3)
///                 | "heads" "(" share { "," share } ")"        heads(global*4, gaussian*4)
///                 | "pointwise" "(" formula { "," capture } ")"
///                                                              pointwise("z - exp(slope) * abs(j - i)", slope=head)
///   combination   = "classic" "(" sum { "," option } ")"       classic(additive + flexible)
///                 | "multi_head" "(" sum { "," option } ")"    multi_head(relative + window, heads=2)
///                 | ( "average" | "concat" ) "(" share or option { "," share or option } ")"
///   option        = name "=" value
///   share         = specification [ "*" count ]                concat(dot*2, additive, head_input=split)
///
/// A sum is multi-head attention with projections and these methods: the specification global + gaussian means
/// multi_head(global + gaussian). Inside average(...) and concat(...), a sum is one head over the inputs themselves,
/// without projections (mechanism.h); multi_head(sum) has projections there too: average(multi_head(global),
/// multi_head(gaussian), laplace). Every method also takes the options layers=FIRST-LAST and heads=FIRST-LAST, counted
/// from 1, which restrict the layers and heads that it acts on; inside multi_head(...), heads= counts the heads of that
/// mechanism. The method "global" adds no term: plain attention. A formula in quotes is a method of one's own
/// (language/formula_text.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/method.h"

namespace fovea {

using MethodMaker = std::function<std::unique_ptr<LocalnessMethod>(const MethodShape&)>;

/// A registered method.
struct MethodEntry {
  MethodCard card;
  /// Passes the options, with their default values, to the visitor, which may change them. Returns a function that
  /// constructs the method with the resulting values.
  std::function<MethodMaker(OptionVisitor&)> configure;
};

/// The entry of a method class (method.h says what the class must have).
template <class Method>
MethodEntry method() {
  return {Method::card, [](OptionVisitor& visitor) -> MethodMaker {
            typename Method::Options options;
            Method::visit(visitor, options);
            return [options](const MethodShape& shape) { return std::make_unique<Method>(shape, options); };
          }};
}

/// Constructs one attention from several mechanisms.
using CombinationMaker =
    std::function<std::unique_ptr<Attention>(const AttentionShape&, const std::vector<AttentionFactory>& mechanisms)>;

/// A combination of attentions to one attention: the entry of classic(...), multi_head(...), average(...) or
/// concat(...).
struct Combination {
  MethodCard card;
  std::function<CombinationMaker(OptionVisitor&)> configure;  ///< as MethodEntry::configure
};

/// The entry of a class which, like a method, has a card, Options and visit(). It is an Attention with a constructor
/// from (const AttentionShape&, const std::vector<AttentionFactory>&, const Options&), or has a static make() with
/// these parameters.
template <class Combined>
Combination combination() {
  return {Combined::card, [](OptionVisitor& visitor) -> CombinationMaker {
            typename Combined::Options options;
            Combined::visit(visitor, options);
            return [options](const AttentionShape& shape,
                             const std::vector<AttentionFactory>& mechanisms) -> std::unique_ptr<Attention> {
              if constexpr (std::is_base_of_v<Attention, Combined>)
                return std::make_unique<Combined>(shape, mechanisms, options);
              else
                return Combined::make(shape, mechanisms, options);
            };
          }};
}

/// All methods, in the order of the catalogue.
const std::vector<MethodEntry>& registered_methods();
/// The method of this name; null if there is none.
const MethodEntry* find_method(const std::string& name);
/// All combinations, in the order of the catalogue.
const std::vector<Combination>& combinations();
/// The combination of this name; null if there is none.
const Combination* find_combination(const std::string& name);
/// Throws Error if a method, a combination or another word of the grammar has this name.
void require_free_name(const std::string& name);
/// Registers a method that is defined outside of the library. Not thread-safe: call it before other threads use the
/// registry. Throws Error if a method, a combination or another word of the grammar has this name.
void register_method(MethodEntry entry);

/// One option as text, for the catalogue: `values` are its range or its choices.
struct OptionDescription {
  std::string name, values, default_value, meaning;
};
std::vector<OptionDescription> describe_options(const MethodEntry& entry);
std::vector<OptionDescription> describe_options(const Combination& entry);

/// An optional input that a specification reads: left_pointer, with "pointers=given". `always`: the specification has
/// this option, or the method needs none.
struct ReadInput {
  std::string name, with;
  bool always;
};
/// The optional inputs that the methods of a specification declare in their cards, each once.
std::vector<ReadInput> inputs_of(const std::string& specification);

/// Returns a function that constructs attentions of this specification. Throws Error if the specification has a
/// mistake; the message has the column and what would be right there. The returned function throws Error if the
/// attention is not defined for the given place or sizes.
AttentionFactory attention_factory(const std::string& specification);

}  // namespace fovea
