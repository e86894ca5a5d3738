/// LEAD-n, the baseline that is hard to beat on news: an article's first n sentences are its summary.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// The sentences of English text, tokenised or not: they end at `.`, `!`, `?` and what closes quotes and brackets
/// behind it, if white space follows. Not at the point of a single letter (J. Smith) or of a few abbreviations (Mr.,
/// e.g.).
std::vector<std::string> sentences(std::string_view text);

/// The first `count` sentences, or all.
std::string lead(std::string_view text, std::int64_t count);

}  // namespace fovea
