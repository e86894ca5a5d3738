/// Every localness method by name, and attentions made from one line of text.
///
///   specification = sum | combination
///   sum           = term { "+" term }
///   term          = name [ "(" option { "," option } ")" ]     gaussian(window=query, layers=1-3)
///                 | "heads" "(" share { "," share } ")"        heads(global*4, gaussian*4)
///   combination   = "classic" "(" sum ")"                      classic(additive + flexible)
///                 | ( "average" | "concat" ) "(" share or option { "," share or option } ")"
///   option        = name "=" value
///   share         = specification [ "*" count ]                concat(dot*2, additive, head_input=split)
///
/// A sum is projected multi-head attention with these methods; inside a combination it is one head over the inputs
/// themselves, without projections (mechanism.h). Every method also takes layers=FIRST-LAST and heads=FIRST-LAST
/// (counted from 1, as papers do): where it acts. "global" is plain attention: it adds nothing.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attention/method.h"

namespace fovea {

/// Visits a method's options: to set them from text, or to describe them. A method lists each of its options once.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void number(const char* name, double& value, double lowest, double highest, const char* meaning) = 0;
  virtual void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
                       const char* meaning) = 0;
  virtual void flag(const char* name, bool& value, const char* meaning) = 0;
  /// `value` is the position in `choices`.
  virtual void choice(const char* name, int& value, const std::vector<std::string>& choices, const char* meaning) = 0;

  /// An enum whose enumerators are 0, 1, ... in the order of `choices`.
  template <class Enum>
  void choice(const char* name, Enum& value, const std::vector<std::string>& choices, const char* meaning) {
    int position = static_cast<int>(value);
    choice(name, position, choices, meaning);
    value = static_cast<Enum>(position);
  }
};

/// What a method says of itself: `static constexpr MethodCard card` of its class.
struct MethodCard {
  const char* name;       ///< in specifications
  const char* summary;    ///< one line
  const char* reference;  ///< paper and equations
  const char* formula;    ///< in plain text, one or more lines; parameters under their names
};

using MethodMaker = std::function<std::unique_ptr<LocalnessMethod>(const MethodShape&)>;

/// A registered method.
struct MethodEntry {
  MethodCard card;
  /// Visits the options, which start at their defaults, and returns what makes the method with the values they then
  /// have.
  std::function<MethodMaker(OptionVisitor&)> configure;
};

/// The entry of a method class, which has: `static constexpr MethodCard card`, a struct Options, `static void
/// visit(OptionVisitor&, Options&)` and a constructor from (const MethodShape&, const Options&).
template <class Method>
MethodEntry method() {
  return {Method::card, [](OptionVisitor& visitor) -> MethodMaker {
            typename Method::Options options;
            Method::visit(visitor, options);
            return [options](const MethodShape& shape) { return std::make_unique<Method>(shape, options); };
          }};
}

/// What makes one attention of several mechanisms.
using CombinationMaker =
    std::function<std::unique_ptr<Attention>(const AttentionShape&, const std::vector<AttentionFactory>& mechanisms)>;

/// A way to make one attention of mechanisms that stand for themselves: classic(...), average(...), concat(...).
struct Combination {
  MethodCard card;
  std::function<CombinationMaker(OptionVisitor&)> configure;  ///< as a method's
};

/// The entry of a class with a card, Options and visit() as a method has them, and `static std::unique_ptr<Attention>
/// make(const AttentionShape&, const std::vector<AttentionFactory>&, const Options&)`.
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
const MethodEntry* find_method(const std::string& name);  ///< null: there is none
const std::vector<Combination>& combinations();
const Combination* find_combination(const std::string& name);
/// Adds one from outside the library, before any specification names it. Throws if the name is taken.
void register_method(MethodEntry entry);

/// One option as the catalogue prints it.
struct OptionDescription {
  std::string name, values, default_value, meaning;
};
std::vector<OptionDescription> describe_options(const MethodEntry& entry);
std::vector<OptionDescription> describe_options(const Combination& entry);

/// What makes attentions of this specification. Throws Error with the column and what would be right, before anything
/// is made; a method that is not defined at some place throws when it is made there.
AttentionFactory attention_factory(const std::string& specification);

}  // namespace fovea
