/// Links between words, from the attention between tokens.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/data/vocabulary.h"
#include "experiments/support/metrics/alignment.h"

namespace fovea {

/// For each token of the encoded text, the number of its word, from 0.
std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::string_view text);
/// For each of the tokens, the number of its word in the decoded text, from 0.
std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::span<const int> tokens);

/// Links each word of the target with the source word to which its tokens attend most, summed over the tokens.
/// `attention` has a row for each target token and </s>, with a weight for each source token and </s>, as
/// Hypothesis::alignment. </s> is no word: a target word that attends to </s> alone has no link.
std::set<Link> word_links(const std::vector<std::vector<float>>& attention,
                          const std::vector<std::int64_t>& source_words, const std::vector<std::int64_t>& target_words);

/// The gold links of each pair; empty if no pair has any. Throws Error for links to words that the texts do not have.
std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs);

}  // namespace fovea
