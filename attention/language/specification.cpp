#include "attention/language/specification.h"

#include <algorithm>
#include <cctype>
#include <charconv>

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

void fail_at(const std::string& text, std::size_t column, const std::string& what, const std::string& advice) {
  fail("{}: {} (column {}){}", in_quotes_around(text, column), what, column, advice);
}

void fail_expecting(const std::string& text, std::size_t at, const std::string& expected) {
  std::size_t end = at + 1;  // of the character: bytes from 0x80 to 0xbf continue it
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  fail_at(text, at + 1, at == text.size() ? "ends too early" : "unexpected " + in_quotes(text.substr(at, end - at)),
          "; expected " + expected);
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
    if (text_.size() > longest)
      fail_at(text_, longest + 1, "too long", fmt::format("; a specification has at most {} characters", longest));
    auto methods = sum(0);
    if (!at_end()) expected("'+' or the end");
    return methods;
  }

 private:
  static constexpr int deepest = 8, most_heads = 1024;
  static constexpr std::size_t longest = 1 << 16, most_terms = 256;

  std::vector<MethodText> sum(int depth) {
    if (depth > deepest) fail_at(text_, column(), "nested too deeply", "");
    std::vector<MethodText> methods{term(depth)};
    for (std::size_t place = column(); take('+'); place = column()) {
      if (methods.size() == most_terms)
        fail_at(text_, place, fmt::format("a sum of more than {} methods", most_terms), "");
      methods.push_back(term(depth));
    }
    return methods;
  }

  MethodText term(int depth) {
    MethodText method;
    skip_spaces();
    method.column = column();
    method.name = word("the name of a method");
    if (!take('(')) return method;
    if (take(')')) return method;
    do {
      if (takes_shares(method.name) && !is_option_next())
        method.shares.push_back(share(depth + 1));
      else
        method.options.push_back(option());
    } while (take(','));
    if (!take(')')) expected("',' or ')'");
    return method;
  }

  static bool takes_shares(const std::string& name) {
    return name == "heads" || name == "classic" || name == "multi_head" || name == "average" || name == "concat";
  }

  /// Whether a word and '=' follow. The reading position stays where it is.
  bool is_option_next() {
    std::size_t from = at_;
    skip_spaces();
    while (!at_end() && is_word(text_[at_])) ++at_;
    bool is_option = take('=');
    at_ = from;
    return is_option;
  }

  Share share(int depth) {
    Share out{sum(depth), 1};
    if (!take('*')) return out;
    skip_spaces();
    std::size_t start = column();
    std::string count = word("a number of heads");
    auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), out.heads);
    if (error != std::errc() || end != count.data() + count.size() || out.heads < 1 || out.heads > most_heads)
      fail_at(text_, start, in_quotes(count) + " is not a number of heads", "; write name*4");
    return out;
  }

  OptionText option() {
    OptionText out;
    skip_spaces();
    out.name_column = column();
    if (is_quote_next()) {
      out.name = "formula";
      out.value_column = column() + 1;
      out.value = quoted();
      return out;
    }
    out.name = word("an option, as in name=value");
    if (!take('=')) expected("'=' after " + in_quotes(out.name));
    skip_spaces();
    out.value_column = column();
    out.value = value();
    return out;
  }

  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  }

  std::string word(const char* what) {
    skip_spaces();
    std::string out;
    while (!at_end() && is_word(text_[at_])) out += text_[at_++];
    if (out.empty()) expected(what);
    return out;
  }

  bool is_quote_next() const { return !at_end() && (text_[at_] == '"' || text_[at_] == '\''); }

  /// A formula in quotes, which may be '...' or "...". Its text has the quotes of the other kind only.
  std::string quoted() {
    const std::size_t begin = at_ + 1, end = text_.find(text_[at_], begin);
    if (end == std::string::npos)
      fail_at(text_, column(), "this quote has no end",
              fmt::format("; write a second {} behind the formula", text_[at_]));
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  /// A value runs to the next ',' or ')': it may hold a sign, a '+' or a ':' (1e+3, q+ctx, offset:8).
  std::string value() {
    std::string out;
    while (!at_end() && (is_word(text_[at_]) || text_[at_] == '+' || text_[at_] == ':')) out += text_[at_++];
    if (out.empty()) expected("a value");
    return out;
  }

  bool take(char c) {
    skip_spaces();
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_spaces() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }
  std::size_t column() const { return at_ + 1; }

  [[noreturn]] void expected(const std::string& what) {
    skip_spaces();
    fail_expecting(text_, at_, what);
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::vector<MethodText> parse_specification(const std::string& text) { return Parser(text).whole(); }

}  // namespace fovea
