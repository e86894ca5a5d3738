#include "experiments/support/metrics/chrf.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "experiments/support/metrics/ngrams.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr std::size_t character_orders = 6, word_orders = 2;

/// The characters, without white space.
Words characters_of(std::string_view text) {
  Words characters;
  for (std::string_view word : split_words(text))
    std::ranges::copy(split_characters(word), std::back_inserter(characters));
  return characters;
}

bool is_ascii_punctuation(unsigned char c) { return std::ispunct(c); }

/// The words, with one punctuation mark at the end of a word, or else one at its beginning, as a word of its own.
Words words_of(std::string_view text) {
  Words words;
  for (std::string_view word : split_words(text)) {
    std::size_t cut = 0;
    if (word.size() > 1 && is_ascii_punctuation(word.back()))
      cut = word.size() - 1;
    else if (word.size() > 1 && is_ascii_punctuation(word.front()))
      cut = 1;
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

/// Counts n-grams up to so many units into every reference's statistics, from order `first` on. The first of the texts
/// is the hypothesis.
void count(std::span<const Words> texts, std::size_t orders, std::size_t first, std::span<ChrfStatistics> statistics) {
  NgramNumbers ngrams(texts);
  for (std::size_t n = 0; n < orders; ++n) {
    if (n > 0) ngrams.lengthen();
    const std::vector<int> of_hypothesis = ngrams.counts(0);
    for (std::size_t r = 0; r < statistics.size(); ++r) {
      const auto reference = std::int64_t(ngrams.of(r + 1).size());
      if (reference == 0) continue;  // the order does not count, so its n-grams of the hypothesis do not either
      std::int64_t* counts = &statistics[r][3 * (first + n)];
      counts[0] = std::int64_t(ngrams.of(0).size()), counts[1] = reference;
      counts[2] = overlap(of_hypothesis, ngrams.counts(r + 1));
    }
  }
}

}  // namespace

ChrfStatistics chrf_statistics(const std::string& hypothesis, std::span<const std::string> references,
                               bool with_words) {
  require(!references.empty(), "chrF: there is no reference");
  std::vector<Words> characters{characters_of(hypothesis)}, words{words_of(hypothesis)};
  for (const std::string& reference : references) {
    characters.push_back(characters_of(reference));
    words.push_back(words_of(reference));
  }
  std::vector<ChrfStatistics> statistics(references.size());
  count(characters, character_orders, 0, statistics);
  if (with_words) count(words, word_orders, character_orders, statistics);
  std::size_t best = 0;
  for (std::size_t r = 1; r < statistics.size(); ++r)
    if (chrf(statistics[r]) > chrf(statistics[best])) best = r;
  return statistics[best];
}

double chrf(const ChrfStatistics& statistics) {
  constexpr double beta_squared = 4;
  double precision = 0, recall = 0;  // summed over the orders that count
  int orders = 0;
  for (std::size_t n = 0; n < statistics.size(); n += 3) {
    const auto hypothesis = double(statistics[n]), reference = double(statistics[n + 1]);
    if (hypothesis == 0 || reference == 0) continue;
    precision += double(statistics[n + 2]) / hypothesis;
    recall += double(statistics[n + 2]) / reference;
    ++orders;
  }
  if (precision + recall == 0) return 0;
  return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall) / orders;
}

SummedMetric chrf_metric(std::span<const ChrfStatistics> sentences) {
  return counted_metric<ChrfStatistics().size()>(sentences, ChrfStatistics().size(), chrf);
}

std::string chrf_line(double score, std::size_t references, bool lower_case, bool with_words) {
  return fmt::format("chrF2{}|nrefs:{}|case:{}|eff:yes|nc:6|nw:{}|space:no|version:fovea.0.1.0 = {:.2f}",
                     with_words ? "++" : "", references, lower_case ? "lc" : "mixed", with_words ? word_orders : 0,
                     score);
}

}  // namespace fovea
