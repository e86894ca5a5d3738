/// The visitor that sets a method's options from the text of a specification.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"

namespace fovea {

/// Sets each visited option to its value in the text, if the text has it. Throws Error with the column for a value
/// outside of the option's range or choices.
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
      fail_at(text_, option->value_column, option->written(), "; use true or false");
    value = option->value == "true";
  }
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) override {
    const OptionText* option = find(name);
    if (!option) return;
    auto found = std::find(choices.begin(), choices.end(), option->value);
    if (found == choices.end())
      fail_at(text_, option->value_column, option->written(), "; use one of " + listed(choices));
    value = static_cast<int>(found - choices.begin());
  }

  /// Call after all visits. Throws Error for an option in the text that was not visited, because the method has no such
  /// option.
  void refuse_unknown() const {
    for (const OptionText& option : method_.options) {
      if (std::count(known_.begin(), known_.end(), option.name)) continue;
      std::string advice = did_you_mean(option.name, known_);
      fail_at(text_, option.name_column, fmt::format("{} has no option {}", method_.name, in_quotes(option.name)),
              advice.empty() ? "; it has " + (known_.empty() ? "none" : listed(known_)) : advice);
    }
  }

  /// The option of this name in the text, null if it is not there; also marks the name as known to refuse_unknown().
  /// Throws Error if the text has the option twice.
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
    const std::optional<Number> value = fovea::number<Number>(option.value);
    if (!value || !(lowest <= *value && *value <= highest))
      fail_at(text_, option.value_column, option.written(),
              fmt::format("; use {} from {} to {}", kind, lowest, highest));
    return *value;
  }

  const std::string& text_;
  const MethodText& method_;
  std::vector<std::string> known_;
};

}  // namespace fovea
