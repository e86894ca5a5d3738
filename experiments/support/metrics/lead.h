/// LEAD-n, a strong baseline for summaries of news: the first n sentences of the article.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// Splits English text, tokenised or not, into sentences. A sentence ends at `.`, `!` or `?`, with the closing quotes
/// and brackets behind it, if white space follows. The point of a single letter (J. Smith) or of an abbreviation that
/// the function knows (Mr., e.g.) ends no sentence.
std::vector<std::string> sentences(std::string_view text);

/// Returns the first `count` sentences of the text, or the whole text if it has fewer.
std::string lead(std::string_view text, std::int64_t count);

}  // namespace fovea
