#include "attention/language/formula_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>

#include "tensor/formula/recorded.h"

namespace fovea {

namespace {

struct NamedFunction {
  const char* name;
  Recorded (*of)(Recorded);
};
constexpr NamedFunction functions_of_one[] = {
    {"abs", abs},   {"exp", exp},         {"log", log},           {"log1p", log1p}, {"sqrt", sqrt}, {"floor", floor},
    {"tanh", tanh}, {"sigmoid", sigmoid}, {"softplus", softplus}, {"erf", erf},     {"sin", sin},   {"cos", cos},
};

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const NamedFunction& function : functions_of_one) names.emplace_back(function.name);
  names.insert(names.end(), {"minimum", "maximum", "where"});
  return names;
}

bool is_function(const std::string& name) {
  const std::vector<std::string> names = function_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

/// Recursive descent, one function per level of precedence, which records the operations as it reads them. Nesting is
/// bounded so that hostile text cannot overflow the stack.
class FormulaParser {
 public:
  /// The names of the inputs are z, i, j and the captures; w stands for the same input as z.
  FormulaParser(std::string_view text, const std::vector<std::string>& captures, std::span<const Recorded> inputs)
      : text_(text), names_{"z", "i", "j"}, inputs_(inputs), is_read_(3 + captures.size(), false) {
    names_.insert(names_.end(), captures.begin(), captures.end());
  }

  Recorded whole() {
    constexpr std::size_t longest = 4096;
    if (text_.text().size() > longest)
      fail_at(text_.text(), longest + 1, "too long", fmt::format("; a formula has at most {} characters", longest));
    const Recorded result = number(any());
    const std::size_t end = text_.column();
    if (text_.take_word("if")) fail_at(text_.text(), end, "unexpected 'if'", "; write where(condition, a, b)");
    if (!text_.at_end()) text_.expected("an operator or the end");
    if (!is_read_[0])
      fail_at(text_.text(), 1, "the formula reads neither z nor w", "; z is the logit of the pair, w its weight");
    for (std::size_t k = 3; k < names_.size(); ++k)
      if (!is_read_[k])
        fail_at(text_.text(), 1, "the formula does not read the capture " + in_quotes(names_[k]), "; leave it out");
    return result;
  }
  bool is_of_weights() const { return is_of_weights_; }

 private:
  static constexpr int deepest = 64;

  /// A number or a truth value, and where it begins.
  struct Value {
    std::size_t column;
    Recorded number = {};
    std::optional<RecordedTruth> truth = {};
  };

  Recorded number(const Value& value) const {
    if (value.truth)
      fail_at(text_.text(), value.column, "found a condition where a number is expected",
              "; write where(condition, a, b)");
    return value.number;
  }
  RecordedTruth truth(const Value& value) const {
    if (!value.truth)
      fail_at(text_.text(), value.column, "found a number where a condition is expected", "; compare it, as in j <= i");
    return *value.truth;
  }

  Value any() {
    if (++depth_ > deepest)
      fail_at(text_.text(), text_.column(), "nested too deeply",
              fmt::format("; at most {} brackets may be open", deepest));
    Value left = conjunction();
    while (text_.take_word("or")) {
      const RecordedTruth first = truth(left);
      left.truth = first | truth(conjunction());
    }
    --depth_;
    return left;
  }
  Value conjunction() {
    Value left = negation();
    while (text_.take_word("and")) {
      const RecordedTruth first = truth(left);
      left.truth = first & truth(negation());
    }
    return left;
  }
  Value negation() {
    const std::size_t begin = text_.column();
    if (!text_.take_word("not")) return comparison();
    return {begin, {}, !truth(negation())};
  }
  Value comparison() {
    Value left = sum();
    bool is_compared = false;
    for (const char* sign = comparison_sign(); *sign; sign = comparison_sign()) {
      if (is_compared) fail_at(text_.text(), text_.column(), "a second comparison", "; write a < b and b < c");
      text_.take(sign);
      left.truth = compared(sign, number(left), number(sum()));
      is_compared = true;
    }
    return left;
  }
  /// The comparison that comes next, "" if none does.
  const char* comparison_sign() {
    for (const char* sign : {"<=", ">=", "==", "!=", "<", ">"})
      if (text_.is_next(sign)) return sign;
    if (text_.is_next("=")) fail_at(text_.text(), text_.column(), "unexpected '='", "; equality is ==");
    return "";
  }
  static RecordedTruth compared(std::string_view sign, Recorded a, Recorded b) {
    if (sign == "<=") return a <= b;
    if (sign == ">=") return a >= b;
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    return sign == "<" ? a < b : a > b;
  }

  Value sum() {
    Value left = product();
    while (true) {
      if (text_.take("+"))
        left.number = number(left) + number(product());
      else if (text_.take("-"))
        left.number = number(left) - number(product());
      else
        return left;
    }
  }
  Value product() {
    Value left = sign();
    while (true) {
      if (text_.is_next("**")) return left;
      if (text_.take("*"))
        left.number = number(left) * number(sign());
      else if (text_.take("/"))
        left.number = number(left) / number(sign());
      else
        return left;
    }
  }
  Value sign() {
    const std::size_t begin = text_.column();
    bool is_negative = false;
    while (text_.take("+") || text_.is_next("-"))
      if (text_.take("-")) is_negative = !is_negative;
    Value value = power();
    if (!is_negative) return value;
    return {begin, -number(value)};
  }
  Value power() {
    Value base = atom();
    if (!text_.take("**")) return base;
    const std::size_t begin = text_.column();
    const int exponent = text_.number<int>().value_or(0);
    if (exponent < 1 || exponent > 16 || text_.is_next("."))
      fail_at(text_.text(), begin, "an exponent is a whole number from 1 to 16",
              "; write sqrt(a), 1 / a, or exp(b * log(a)) for a > 0");
    const Recorded factor = number(base);
    for (int k = 1; k < exponent; ++k) base.number = base.number * factor;
    if (text_.is_next("**")) fail_at(text_.text(), text_.column(), "a second '**'", "; write (a ** b) ** c");
    return base;
  }

  Value atom() {
    const std::size_t begin = text_.column();
    if (text_.take("(")) {
      Value value = any();
      close(begin);
      value.column = begin;
      return value;
    }
    const char next = text_.at_end() ? '\0' : text_.rest()[0];
    if (is_digit(next) || next == '.') return {begin, literal()};
    const std::string name(text_.word());
    if (name.empty()) text_.expected("a number, a name or '('");
    if (text_.is_next("(")) return {begin, called(name, begin)};
    return {begin, named(name, begin)};
  }
  Recorded literal() {
    const std::size_t begin = text_.column();
    const std::string_view from = text_.rest();
    double value = 0;
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (error == std::errc::invalid_argument) text_.expected("a number");
    const std::string digits(from.data(), end);
    if (error != std::errc()) value = std::strtod(digits.c_str(), nullptr);  // tells too large from too small
    if (value > std::numeric_limits<float>::max())
      fail_at(text_.text(), begin, in_quotes(digits) + " is too large", "; the largest number is 3.4e38");
    text_.take(digits);
    return value;
  }
  Recorded named(const std::string& name, std::size_t begin) {
    if (is_function(name))
      fail_at(text_.text(), begin, "the function " + in_quotes(name) + " has no argument", "; write '('");
    if (name == "z" || name == "w") {
      const bool is_weight = name == "w";
      if (is_read_[0] && is_of_weights_ != is_weight)
        fail_at(text_.text(), begin, "the formula reads both z and w",
                "; z is for a change of logits, w for one of weights");
      is_of_weights_ = is_weight;
    }
    const auto found = std::find(names_.begin(), names_.end(), name == "w" ? "z" : name);
    if (found == names_.end()) {
      std::vector<std::string> known = names_;
      known.insert(known.begin() + 1, "w");
      const std::string advice = did_you_mean(name, known);
      fail_at(text_.text(), begin, "no name " + in_quotes(name),
              advice.empty() ? "; the names are " + listed(known) + ", and a capture is added as name=head" : advice);
    }
    const auto k = static_cast<std::size_t>(found - names_.begin());
    is_read_[k] = true;
    return inputs_[k];
  }
  Recorded called(const std::string& name, std::size_t begin) {
    const std::size_t bracket = text_.column();
    if (!is_function(name)) {
      const std::string known = name == "min" || name == "max" ? name + "imum" : name;
      const std::string advice = did_you_mean(known, function_names());
      fail_at(text_.text(), begin, "no function " + in_quotes(name),
              advice.empty() ? "; the functions are " + listed(function_names()) : advice);
    }
    text_.take("(");
    std::vector<Value> arguments;
    do arguments.push_back(any());
    while (text_.take(","));
    close(bracket);
    const std::size_t wanted = name == "where" ? 3 : name == "minimum" || name == "maximum" ? 2 : 1;
    if (arguments.size() != wanted)
      fail_at(text_.text(), begin, fmt::format("{} has {} arguments", name, arguments.size()),
              fmt::format("; expected {}", wanted));
    if (name == "where") return select(truth(arguments[0]), number(arguments[1]), number(arguments[2]));
    if (name == "minimum") return smaller_of(number(arguments[0]), number(arguments[1]));
    if (name == "maximum") return larger_of(number(arguments[0]), number(arguments[1]));
    return std::ranges::find(functions_of_one, name, &NamedFunction::name)->of(number(arguments[0]));
  }

  void close(std::size_t bracket) {
    if (!text_.take(")")) text_.expected(fmt::format("')' for the '(' in column {}", bracket));
  }
  TextReader text_;
  std::vector<std::string> names_;
  std::span<const Recorded> inputs_;
  std::vector<bool> is_read_;
  bool is_of_weights_ = false;
  int depth_ = 0;
};

}  // namespace

ParsedFormula parse_formula(const std::string& text, const std::vector<std::string>& captures) {
  bool of_weights = false;
  Expression expression =
      record_expression(3 + static_cast<int>(captures.size()), [&](std::span<const Recorded> inputs) {
        FormulaParser parser(text, captures, inputs);
        const std::vector<Recorded> results{parser.whole()};
        of_weights = parser.is_of_weights();
        return results;
      });
  return {std::move(expression), of_weights};
}

bool is_formula_capture(std::string_view parameter) {
  const std::size_t name = parameter.rfind('.');
  if (name == std::string_view::npos) return false;
  std::string_view part = parameter.substr(0, name);
  part = part.substr(part.rfind('.') + 1);  // npos + 1 is 0
  if (!part.starts_with(formula_word)) return false;
  part.remove_prefix(std::string_view(formula_word).size());
  return part.empty() || (part[0] == '_' && std::all_of(part.begin() + 1, part.end(), is_digit));
}

bool can_name_capture(const std::string& name) {
  const std::vector<std::string> taken{"z", "w", "i", "j", "and", "or", "not", "formula", "layers", "heads"};
  return is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); }) &&
         !is_function(name) && std::find(taken.begin(), taken.end(), name) == taken.end();
}

}  // namespace fovea
