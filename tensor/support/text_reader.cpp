#include "tensor/support/text_reader.h"

#include <algorithm>
#include <cctype>

#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

void fail_at(std::string_view text, std::size_t column, const std::string& what, const std::string& advice) {
  fail("{}: {} (column {}){}", in_quotes_around(text, column), what, column, advice);
}

std::string_view TextReader::rest() {
  while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  return text_.substr(at_);
}

std::size_t TextReader::column() { return text_.size() - rest().size() + 1; }

bool TextReader::take(std::string_view sign) {
  const bool found = is_next(sign);
  if (found) at_ += sign.size();
  return found;
}

std::string_view TextReader::word(std::string_view others) {
  const std::string_view from = rest();
  const auto is_of_word = [&](unsigned char c) {
    return std::isalnum(c) || c == '_' || others.find(static_cast<char>(c)) != std::string_view::npos;
  };
  const std::string_view found = from.substr(0, std::size_t(std::ranges::find_if_not(from, is_of_word) - from.begin()));
  at_ += found.size();
  return found;
}

bool TextReader::take_word(std::string_view wanted) {
  const std::size_t begin = at_;
  const bool found = word() == wanted;
  if (!found) at_ = begin;
  return found;
}

double TextReader::required_number() {
  if (const std::optional<double> value = number<double>()) return *value;
  double value = 0;
  std::string_view from = rest();
  if (from.starts_with('+') && !from.starts_with("+-")) from.remove_prefix(1);
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
  if (error != std::errc::result_out_of_range) expected("a number");
  constexpr std::size_t most_shown = 20;
  const std::string digits(from.data(), end);
  fail_at(text_, column(),
          in_quotes(digits.size() > most_shown ? digits.substr(0, most_shown) + "..." : digits) +
              " is too large or too small",
          "; write 0, or a number of 2.3e-308 to 1.7e308");
}

void TextReader::expected(const std::string& wanted) {
  const std::string_view from = rest();
  std::size_t length = 1;  // of the character: bytes from 0x80 to 0xbf continue it
  while (length < from.size() && (static_cast<unsigned char>(from[length]) & 0xc0) == 0x80) ++length;
  fail_at(text_, column(), from.empty() ? "ends too early" : "unexpected " + in_quotes(from.substr(0, length)),
          "; expected " + wanted);
}

}  // namespace fovea
