/// The text of a specification, parsed: names and options as written, with their columns. What they mean is for the
/// registry. The grammar is in registry.h.
#pragma once
#include <string>
#include <vector>

namespace fovea {

struct Share;

struct OptionText {
  std::string name, value;
  std::size_t name_column, value_column;  ///< counted from 1
  std::string written() const;            ///< "name=value" for messages, cut where it is long
};

struct MethodText {
  std::string name;
  std::size_t column;
  std::vector<OptionText> options;
  std::vector<Share> shares;  ///< of heads(...) and combinations
};

struct Share {
  std::vector<MethodText> sum;
  int heads;
};

/// The methods of a sum. Throws Error naming the text, the column and what was expected there.
std::vector<MethodText> parse_specification(const std::string& text);

/// The error of a specification: "'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?"
[[noreturn]] void fail_at(const std::string& text, std::size_t column, const std::string& what,
                          const std::string& advice);

/// "a, b, c"
std::string listed(const std::vector<std::string>& words);

}  // namespace fovea
