/// The syntax of specifications: parses the text to names and options as written, with their columns. Whether methods
/// and options of these names exist is checked later (planning.cpp). The grammar is in registry.h.
#pragma once
#include <string>
#include <vector>

#include "tensor/support/text_reader.h"

namespace fovea {

struct Share;

/// An option: name=value. A formula in quotes, which is written without a name, is the option "formula".
struct OptionText {
  std::string name, value;
  std::size_t name_column, value_column;  ///< counted from 1
  std::string written() const;            ///< "name=value" for messages, cut after 80 characters
};

/// A term of a sum: a method, heads(...) or a combination.
struct MethodText {
  std::string name;
  std::size_t column;
  std::vector<OptionText> options;
  std::vector<Share> shares;  ///< the parts of heads(...) or of a combination; empty for a method
};

/// One part of heads(...) or of a combination: sum*heads, where `heads` is a number of heads or mechanisms.
struct Share {
  std::vector<MethodText> sum;
  int heads;
};

/// The methods of a sum. Throws Error naming the text, the column and what was expected there.
std::vector<MethodText> parse_specification(const std::string& text);

/// All methods and combinations of a sum, also those inside heads(...) and combinations, in the order of the text. They
/// point into `sum`.
std::vector<const MethodText*> all_methods(const std::vector<MethodText>& sum);

/// "a, b, c"
std::string listed(const std::vector<std::string>& words);

}  // namespace fovea
