/// sacreBLEU's tokenizations that look at characters of all scripts.
#pragma once
#include <string>
#include <string_view>

namespace fovea {

/// mteval-v14 with --international-tokenization, sacreBLEU's intl: spaces around punctuation (Unicode's category P)
/// that does not stand between two numbers (N), and around symbols (S). Invalid UTF-8 counts as U+FFFD.
std::string international_tokens(std::string_view text);

/// Spaces around each character that sacreBLEU's zh takes for Chinese. Its rules for the rest are those of mteval-v13a.
std::string with_spaces_around_chinese(std::string_view text);

}  // namespace fovea
