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
  FormulaParser(const std::string& text, const std::vector<std::string>& captures, std::span<const Recorded> inputs)
      : text_(text), names_{"z", "i", "j"}, inputs_(inputs), is_read_(3 + captures.size(), false) {
    names_.insert(names_.end(), captures.begin(), captures.end());
  }

  Recorded whole() {
    constexpr std::size_t longest = 4096;
    if (text_.size() > longest)
      fail_at(text_, longest + 1, "too long", fmt::format("; a formula has at most {} characters", longest));
    const Recorded result = number(any());
    if (take_word("if")) fail_at(text_, at_ - 1, "unexpected 'if'", "; write where(condition, a, b)");
    if (!at_end()) expected("an operator or the end");
    if (!is_read_[0])
      fail_at(text_, 1, "the formula reads neither z nor w", "; z is the logit of the pair, w its weight");
    for (std::size_t k = 3; k < names_.size(); ++k)
      if (!is_read_[k])
        fail_at(text_, 1, "the formula does not read the capture " + in_quotes(names_[k]), "; leave it out");
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
      fail_at(text_, value.column, "found a condition where a number is expected", "; write where(condition, a, b)");
    return value.number;
  }
  RecordedTruth truth(const Value& value) const {
    if (!value.truth)
      fail_at(text_, value.column, "found a number where a condition is expected", "; compare it, as in j <= i");
    return *value.truth;
  }

  Value any() {
    if (++depth_ > deepest) fail_at(text_, column(), "nested too deeply", "");
    Value left = conjunction();
    while (take_word("or")) left.truth = truth(left) | truth(conjunction());
    --depth_;
    return left;
  }
  Value conjunction() {
    Value left = negation();
    while (take_word("and")) left.truth = truth(left) & truth(negation());
    return left;
  }
  Value negation() {
    skip_spaces();
    const std::size_t begin = column();
    if (!take_word("not")) return comparison();
    return {begin, {}, !truth(negation())};
  }
  Value comparison() {
    Value left = sum();
    bool is_compared = false;
    for (const char* sign = comparison_sign(); *sign; sign = comparison_sign()) {
      if (is_compared) fail_at(text_, column(), "a second comparison", "; write a < b and b < c");
      take(sign);
      left.truth = compared(sign, number(left), number(sum()));
      is_compared = true;
    }
    return left;
  }
  /// The comparison that comes next, "" if none does.
  const char* comparison_sign() {
    for (const char* sign : {"<=", ">=", "==", "!=", "<", ">"})
      if (is_next(sign)) return sign;
    if (is_next("=")) fail_at(text_, column(), "unexpected '='", "; equality is ==");
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
      if (take("+"))
        left.number = number(left) + number(product());
      else if (take("-"))
        left.number = number(left) - number(product());
      else
        return left;
    }
  }
  Value product() {
    Value left = sign();
    while (true) {
      if (is_next("**")) return left;
      if (take("*"))
        left.number = number(left) * number(sign());
      else if (take("/"))
        left.number = number(left) / number(sign());
      else
        return left;
    }
  }
  Value sign() {
    skip_spaces();
    const std::size_t begin = column();
    bool is_negative = false;
    while (is_next("-") || is_next("+")) is_negative = text_[at_++] == '-' ? !is_negative : is_negative;
    Value value = power();
    if (!is_negative) return value;
    return {begin, -number(value)};
  }
  Value power() {
    Value base = atom();
    if (!take("**")) return base;
    skip_spaces();
    const std::size_t begin = column();
    int exponent = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), exponent);
    if (error != std::errc() || exponent < 1 || exponent > 16 || (end != text_.data() + text_.size() && *end == '.'))
      fail_at(text_, begin, "an exponent is a whole number from 1 to 16",
              "; write sqrt(a), 1 / a, or exp(b * log(a)) for a > 0");
    at_ = static_cast<std::size_t>(end - text_.data());
    const Recorded factor = number(base);
    for (int k = 1; k < exponent; ++k) base.number = base.number * factor;
    return base;
  }

  Value atom() {
    skip_spaces();
    const std::size_t begin = column();
    if (at_end()) expected("a number, a name or '('");
    if (take("(")) {
      Value value = any();
      close(begin);
      value.column = begin;
      return value;
    }
    if (is_digit(text_[at_]) || text_[at_] == '.') return {begin, literal()};
    if (!is_letter(text_[at_])) expected("a number, a name or '('");
    const std::string name = word();
    if (is_next("(")) return {begin, called(name, begin)};
    return {begin, named(name, begin)};
  }
  Recorded literal() {
    double value = 0;
    const std::size_t begin = column();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range)  // too large or too small: strtod() tells which
      value = std::strtod(text_.c_str() + at_, nullptr);
    else if (error != std::errc())
      expected("a number");
    if (value > std::numeric_limits<float>::max())
      fail_at(text_, begin, in_quotes(std::string(text_.data() + at_, end)) + " is too large",
              "; the largest number is 3.4e38");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  Recorded named(const std::string& name, std::size_t begin) {
    if (is_function(name)) fail_at(text_, begin, "the function " + in_quotes(name) + " has no argument", "; write '('");
    if (name == "z" || name == "w") {
      const bool is_weight = name == "w";
      if (is_read_[0] && is_of_weights_ != is_weight)
        fail_at(text_, begin, "the formula reads both z and w", "; z is for a change of logits, w for one of weights");
      is_of_weights_ = is_weight;
    }
    const auto found = std::find(names_.begin(), names_.end(), name == "w" ? "z" : name);
    if (found == names_.end()) {
      std::vector<std::string> known = names_;
      known.insert(known.begin() + 1, "w");
      const std::string advice = did_you_mean(name, known);
      fail_at(text_, begin, "no name " + in_quotes(name),
              advice.empty() ? "; the names are " + listed(known) + ", and a capture is added as name=head" : advice);
    }
    const auto k = static_cast<std::size_t>(found - names_.begin());
    is_read_[k] = true;
    return inputs_[k];
  }
  Recorded called(const std::string& name, std::size_t begin) {
    const std::size_t bracket = column();
    if (!is_function(name)) {
      const std::string known = name == "min" || name == "max" ? name + "imum" : name;
      const std::string advice = did_you_mean(known, function_names());
      fail_at(text_, begin, "no function " + in_quotes(name),
              advice.empty() ? "; the functions are " + listed(function_names()) : advice);
    }
    take("(");
    std::vector<Value> arguments;
    do arguments.push_back(any());
    while (take(","));
    close(bracket);
    const std::size_t wanted = name == "where" ? 3 : name == "minimum" || name == "maximum" ? 2 : 1;
    if (arguments.size() != wanted)
      fail_at(text_, begin, fmt::format("{} has {} arguments", name, arguments.size()),
              fmt::format("; expected {}", wanted));
    if (name == "where") return select(truth(arguments[0]), number(arguments[1]), number(arguments[2]));
    if (name == "minimum") return smaller_of(number(arguments[0]), number(arguments[1]));
    if (name == "maximum") return larger_of(number(arguments[0]), number(arguments[1]));
    return std::ranges::find(functions_of_one, name, &NamedFunction::name)->of(number(arguments[0]));
  }

  void close(std::size_t bracket) {
    if (!take(")")) expected(fmt::format("')' for the '(' in column {}", bracket));
  }
  std::string word() {
    std::string out;
    while (!at_end() && (is_letter(text_[at_]) || is_digit(text_[at_]))) out += text_[at_++];
    return out;
  }
  bool is_next(std::string_view sign) {
    skip_spaces();
    return std::string_view(text_).substr(at_).starts_with(sign);
  }
  bool take(std::string_view sign) {
    const bool found = is_next(sign);
    if (found) at_ += sign.size();
    return found;
  }
  bool take_word(std::string_view wanted) {
    if (!is_next(wanted)) return false;
    const std::size_t end = at_ + wanted.size();
    if (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }
  void skip_spaces() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }
  std::size_t column() const { return at_ + 1; }

  [[noreturn]] void expected(const std::string& what) {
    skip_spaces();
    fail_expecting(text_, at_, what);
  }

  const std::string& text_;
  std::vector<std::string> names_;
  std::span<const Recorded> inputs_;
  std::vector<bool> is_read_;
  bool is_of_weights_ = false;
  std::size_t at_ = 0;
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
  const std::vector<std::string> taken{"z", "w", "i", "j", "and", "or", "not"};
  return is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); }) &&
         !is_function(name) && std::find(taken.begin(), taken.end(), name) == taken.end();
}

}  // namespace fovea
