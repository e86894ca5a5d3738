/// Links between words, from what attention says of tokens.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/text/vocabulary.h"

namespace fovea {

/// The word, from 0, of each token that the text is encoded to.
std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::string_view text);
/// The word of each of these tokens, in the text that they are decoded to.
std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::span<const int> tokens);

/// For each word of the target the word of the source that its tokens look at most, all together. `attention` has a row
/// for each token of the target and for </s>, of the source's tokens and </s>, as Hypothesis::alignment; </s> is no
/// word. No links to a source without words.
std::set<Link> word_links(const std::vector<std::vector<float>>& attention,
                          const std::vector<std::int64_t>& source_words, const std::vector<std::int64_t>& target_words);

}  // namespace fovea
