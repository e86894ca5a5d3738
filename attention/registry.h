/// The registry of localness methods, and the construction of an attention from a specification, one line of text:
///
///   specification = sum | combination
///   sum           = term { "+" term }
///   term          = name [ "(" option { "," option } ")" ]     gaussian(window=query, layers=1-3)
///                 | "heads" "(" share { "," share } ")"        heads(global*4, gaussian*4)
///   combination   = "classic" "(" sum ")"                      classic(additive + flexible)
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
/// mechanism. The method "global" adds no term: plain attention.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attention/method.h"

namespace fovea {

/// A visitor of a method's options. One visitor sets the options from the text of a specification, another one
/// describes them for the catalogue. A method lists its options once, in its visit(), which serves both.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  /// A real number in lowest ≤ value ≤ highest. `meaning` is one line of help text.
  virtual void number(const char* name, double& value, double lowest, double highest, const char* meaning) = 0;
  /// A whole number in lowest ≤ value ≤ highest.
  virtual void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
                       const char* meaning) = 0;
  /// true or false.
  virtual void flag(const char* name, bool& value, const char* meaning) = 0;
  /// One of several words. `value` is the index of the chosen word in `choices`.
  virtual void choice(const char* name, int& value, const std::vector<std::string>& choices, const char* meaning) = 0;

  /// The same for an enum whose enumerators 0, 1, ... are in the order of `choices`.
  template <class Enum>
  void choice(const char* name, Enum& value, const std::vector<std::string>& choices, const char* meaning) {
    int position = static_cast<int>(value);
    choice(name, position, choices, meaning);
    value = static_cast<Enum>(position);
  }
};

/// A method's entry in the catalogue: `static constexpr MethodCard card` in its class.
struct MethodCard {
  const char* name;       ///< the name in specifications
  const char* summary;    ///< what the method does, in one line of at most about 80 characters
  const char* reference;  ///< paper and equations
  const char* formula;  ///< the equation in plain text, one or more lines; parameters have the names that they have in
                        ///< a checkpoint
  /// The optional inputs of a call that the method reads, "step_input, previous_focus", and the option with which it
  /// does, "pointers=given"; "": always.
  const char *reads = "", *reads_with = "";
};

using MethodMaker = std::function<std::unique_ptr<LocalnessMethod>(const MethodShape&)>;

/// A registered method.
struct MethodEntry {
  MethodCard card;
  /// Passes the options, with their default values, to the visitor, which may change them. Returns a function that
  /// constructs the method with the resulting values.
  std::function<MethodMaker(OptionVisitor&)> configure;
};

/// The entry of a method class. The class must have `static constexpr MethodCard card`, a struct Options, `static void
/// visit(OptionVisitor&, Options&)` and a constructor from (const MethodShape&, const Options&).
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

/// The entry of a class which, like a method, has a card, Options and visit(), and which has `static
/// std::unique_ptr<Attention> make(const AttentionShape&, const std::vector<AttentionFactory>&, const Options&)`.
template <class Combined>
Combination combination() {
  return {Combined::card, [](OptionVisitor& visitor) -> CombinationMaker {
            typename Combined::Options options;
            Combined::visit(visitor, options);
            return [options](const AttentionShape& shape, const std::vector<AttentionFactory>& mechanisms) {
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
/// Registers a method that is defined outside of the library. Not thread-safe: call it before other threads use the
/// registry. Throws Error if a method of this name exists.
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
