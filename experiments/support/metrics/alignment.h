/// Word alignments, and their error rate against gold alignments: Och & Ney 2003, "A Systematic Comparison of Various
/// Statistical Alignment Models".
#pragma once
#include <compare>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/data/vocabulary.h"
#include "experiments/support/metrics/statistics.h"

namespace fovea {

/// Word `source` of the source and word `target` of the target, from 0.
struct Link {
  std::int64_t source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};

/// The gold alignment of a sentence pair. Every sure link is also a possible one.
struct GoldAlignment {
  std::set<Link> sure, possible;
};

/// Reads a line of Pharaoh's format: `0-0 1-2 2?1`, source before target, `?` where a link is only possible. Throws
/// Error, without file and line, on anything else.
/// The file's first word of a sentence has the number `first`.
GoldAlignment parse_alignment(std::string_view line, std::int64_t first = 0);

/// Whether there are links at all, and such of the first word of a source or target.
struct FirstWords {
  bool any = false, source = false, target = false;
  void add(const GoldAlignment& alignment);
};

/// Links in that format, by source: "0-0 1-2".
std::string alignment_text(const std::set<Link>& links);

/// The source word with the most attention for each target word (the first of equal ones). `attention` is [T, J]: a row
/// of weights over the `sources` for each target word.
std::set<Link> strongest_links(std::span<const double> attention, std::int64_t sources);

/// AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), 0 to 1, as a metric that can be resampled; 0 where there is no link
/// at all. A are the links to be judged of each sentence pair, S the sure and P the possible links of the gold
/// alignment.
SummedMetric alignment_error(std::span<const std::set<Link>> links, std::span<const GoldAlignment> gold);

// ---- Links between words, from the attention between tokens.

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
