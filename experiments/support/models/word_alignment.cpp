#include "experiments/support/models/word_alignment.h"

#include <algorithm>

#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/warning.h"

namespace fovea {

std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int64_t> words;
  std::int64_t number = 0;
  for (std::string_view word : split_words(text)) words.insert(words.end(), tokenizer.encode(word).size(), number++);
  return words;
}

std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::span<const int> tokens) {
  std::vector<std::int64_t> words;
  std::int64_t number = 0;
  std::size_t begin = 0;  // of the word
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    // Tokens form one word as long as they decode to one word. Some tokenizers mark beginnings of words, some ends.
    if (split_words(tokenizer.decode(tokens.subspan(begin, k + 1 - begin))).size() > 1) {
      ++number;
      begin = k;
    }
    words.push_back(number);
  }
  return words;
}

std::set<Link> word_links(const std::vector<std::vector<float>>& attention,
                          const std::vector<std::int64_t>& source_words,
                          const std::vector<std::int64_t>& target_words) {
  if (source_words.empty() || target_words.empty()) return {};
  const auto S = std::size_t(source_words.back() + 1), T = std::size_t(target_words.back() + 1);
  std::vector<double> sums(T * S, 0);
  for (std::size_t t = 0; t < std::min(target_words.size(), attention.size()); ++t)
    for (std::size_t j = 0; j < std::min(source_words.size(), attention[t].size()); ++j)
      sums[std::size_t(target_words[t]) * S + std::size_t(source_words[j])] += attention[t][j];
  std::set<Link> links = strongest_links(sums, std::int64_t(S));
  std::erase_if(links, [&](const Link& link) {  // the target word attends to </s> alone
    return sums[std::size_t(link.target) * S + std::size_t(link.source)] == 0;
  });
  return links;
}

std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs) {
  std::vector<GoldAlignment> all;
  if (std::ranges::all_of(pairs, [](const TextPair& pair) { return pair.alignment.empty(); })) return all;
  bool any_first = false;
  for (const TextPair& pair : pairs) {
    const auto sources = std::ssize(split_words(pair.source)), targets = std::ssize(split_words(pair.target));
    with_flag(fmt::format("the alignment of pair {}", all.size() + 1), [&] {
      all.push_back(parse_alignment(pair.alignment));
      for (const Link& link : all.back().possible)
        require(link.source < sources && link.target < targets,
                "'{}-{}': the texts have {} and {} words, counted from 0", link.source, link.target, sources, targets);
    });
    any_first = any_first || has_first_word(all.back());
  }
  if (!any_first) warn("the gold alignments have no link of a word 0: are they counted from 1? They must be from 0");
  return all;
}

}  // namespace fovea
