/// All localness methods by name, and the construction of attentions from a specification, one line of text:
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
/// A sum is multi-head attention with projections and these methods: global + gaussian is multi_head(global +
/// gaussian). Inside average(...) and concat(...) a sum is one head over the inputs themselves, without projections
/// (mechanism.h); multi_head(sum) has projections there too: average(multi_head(global), multi_head(gaussian),
/// laplace). Each method also has the options layers=FIRST-LAST and heads=FIRST-LAST, counted from 1, which restrict
/// where it acts; inside multi_head(...) heads are those of that mechanism. The method "global" adds nothing: plain
/// attention.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attention/method.h"

namespace fovea {

/// A visitor of a method's options, which sets them from text or describes them. A method lists its options in one
/// function, visit(), so that both agree.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void number(const char* name, double& value, double lowest, double highest, const char* meaning) = 0;
  virtual void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
                       const char* meaning) = 0;
  virtual void flag(const char* name, bool& value, const char* meaning) = 0;
  /// `value` is the index of the choice in `choices`.
  virtual void choice(const char* name, int& value, const std::vector<std::string>& choices, const char* meaning) = 0;

  /// For an enum whose enumerators 0, 1, ... have the order of `choices`.
  template <class Enum>
  void choice(const char* name, Enum& value, const std::vector<std::string>& choices, const char* meaning) {
    int position = static_cast<int>(value);
    choice(name, position, choices, meaning);
    value = static_cast<Enum>(position);
  }
};

/// A method's entry in the catalogue: `static constexpr MethodCard card` in its class.
struct MethodCard {
  const char* name;       ///< in specifications
  const char* summary;    ///< one line
  const char* reference;  ///< paper and equations
  const char* formula;    ///< in plain text, one or more lines; parameters have their names
};

using MethodMaker = std::function<std::unique_ptr<LocalnessMethod>(const MethodShape&)>;

/// A registered method.
struct MethodEntry {
  MethodCard card;
  /// Visits the options, which have their default values before. Returns a function that constructs the method with
  /// their values after the visit.
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

/// A combination of mechanisms to one attention: classic(...), multi_head(...), average(...), concat(...).
struct Combination {
  MethodCard card;
  std::function<CombinationMaker(OptionVisitor&)> configure;  ///< as MethodEntry::configure
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
const MethodEntry* find_method(const std::string& name);  ///< null if there is none
const std::vector<Combination>& combinations();
const Combination* find_combination(const std::string& name);
/// Registers a method from outside the library. Call it before other threads use the registry. Throws Error if the name
/// is taken.
void register_method(MethodEntry entry);

/// A description of one option, for the catalogue.
struct OptionDescription {
  std::string name, values, default_value, meaning;
};
std::vector<OptionDescription> describe_options(const MethodEntry& entry);
std::vector<OptionDescription> describe_options(const Combination& entry);

/// A function that constructs attentions of this specification. Throws Error, with the column and what would be right,
/// for a specification with a mistake. The returned function throws Error where a method is not defined at a place of
/// the model.
AttentionFactory attention_factory(const std::string& specification);

}  // namespace fovea
