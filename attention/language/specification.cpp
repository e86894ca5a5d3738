#include "attention/language/specification.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

std::vector<const MethodText*> all_methods(const std::vector<MethodText>& sum) {
  std::vector<const MethodText*> all;
  for (const MethodText& method : sum) {
    all.push_back(&method);
    for (const Share& share : method.shares) {
      const std::vector<const MethodText*> inner = all_methods(share.sum);
      all.insert(all.end(), inner.begin(), inner.end());
    }
  }
  return all;
}

std::string OptionText::written() const {
  constexpr std::size_t longest = 80;
  std::string text = name + "=" + value;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

namespace {

/// Recursive descent, one function per rule of the grammar; nesting is bounded so that hostile text cannot overflow the
/// stack.
class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  std::vector<MethodText> whole() {
    if (text_.text().size() > longest)
      fail_at(text_.text(), longest + 1, "too long",
              fmt::format("; a specification has at most {} characters", longest));
    auto methods = sum(0);
    if (!text_.at_end()) text_.expected("'+' or the end");
    return methods;
  }

 private:
  static constexpr int deepest = 8, most_heads = 1024;
  static constexpr std::size_t longest = 1 << 16, most_terms = 256;
  static constexpr std::string_view of_words = ".-";

  std::vector<MethodText> sum(int depth) {
    if (depth > deepest)
      fail_at(text_.text(), text_.column(), "nested too deeply",
              fmt::format("; at most {} brackets may be open", deepest));
    std::vector<MethodText> methods{term(depth)};
    for (std::size_t place = text_.column(); text_.take("+"); place = text_.column()) {
      if (methods.size() == most_terms)
        fail_at(text_.text(), place, fmt::format("a sum of more than {} methods", most_terms), "");
      methods.push_back(term(depth));
    }
    return methods;
  }

  MethodText term(int depth) {
    MethodText method;
    method.column = text_.column();
    method.name = word("the name of a method");
    if (!text_.take("(") || text_.take(")")) return method;
    do {
      if (takes_shares(method.name) && !is_option_next())
        method.shares.push_back(share(depth + 1, method.name == "heads" ? "heads" : "mechanisms"));
      else
        method.options.push_back(option());
    } while (text_.take(","));
    if (!text_.take(")")) text_.expected("',' or ')'");
    return method;
  }

  static bool takes_shares(const std::string& name) {
    return name == "heads" || name == "classic" || name == "multi_head" || name == "average" || name == "concat";
  }

  /// Whether a word and '=' follow.
  bool is_option_next() const {
    TextReader ahead = text_;
    ahead.word(of_words);
    return ahead.is_next("=");
  }

  Share share(int depth, const char* what) {
    Share out{sum(depth), 1};
    if (!text_.take("*")) return out;
    const std::size_t start = text_.column();
    const std::string count = word("a number");
    out.heads = number<int>(count).value_or(0);
    if (out.heads < 1 || out.heads > most_heads)
      fail_at(text_.text(), start, fmt::format("{} is not a number of {}", in_quotes(count), what),
              fmt::format("; write name*4, with a number from 1 to {}", most_heads));
    return out;
  }

  OptionText option() {
    OptionText out;
    out.name_column = text_.column();
    if (text_.is_next("\"") || text_.is_next("'")) {
      out.name = "formula";
      out.value_column = out.name_column + 1;
      out.value = quoted();
      return out;
    }
    out.name = word("an option, as in name=value");
    if (!text_.take("=")) text_.expected("'=' after " + in_quotes(out.name));
    out.value_column = text_.column();
    out.value = text_.word(".-+:");  // with signs, '+' and ':', as in 1e+3, q+ctx, offset:8
    if (out.value.empty()) text_.expected("a value");
    return out;
  }

  std::string word(const char* what) {
    const std::string_view found = text_.word(of_words);
    if (found.empty()) text_.expected(what);
    return std::string(found);
  }

  /// A formula in quotes, which may be '...' or "...". Its text has the quotes of the other kind only.
  std::string quoted() {
    const std::string_view from = text_.rest();
    const std::size_t end = from.find(from[0], 1);
    if (end == std::string_view::npos)
      fail_at(text_.text(), text_.column(), "this quote has no end",
              fmt::format("; write a second {} behind the formula", from[0]));
    text_.take(from.substr(0, end + 1));
    return std::string(from.substr(1, end - 1));
  }

  TextReader text_;
};

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::vector<MethodText> parse_specification(const std::string& text) { return Parser(text).whole(); }

}  // namespace fovea
