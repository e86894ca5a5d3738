#include "experiments/support/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "experiments/support/metrics/ngrams.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr std::size_t highest = BleuStatistics::orders;

/// p_1, ..., p_order, 0 to 1.
std::vector<double> precisions(const BleuStatistics& sums, int order, BleuSmoothing smoothing) {
  require(order >= 1 && order <= BleuStatistics::orders, "BLEU: n-grams of {} words, expected 1 to {}", order,
          BleuStatistics::orders);
  const double more = smoothing == BleuSmoothing::add_one ? 1 : 0;
  const bool any_match = std::any_of(sums.matches.begin(), sums.matches.begin() + order, [](auto c) { return c > 0; });
  double halved = 1;
  std::vector<double> result;
  for (std::size_t n = 0; n < std::size_t(order); ++n) {
    const double matches = double(sums.matches[n]) + more, total = double(sums.totals[n]) + more;
    const bool to_smooth = matches == 0 && total > 0 && any_match && smoothing == BleuSmoothing::exponential;
    if (to_smooth) halved /= 2;
    result.push_back(total == 0 ? 0 : to_smooth ? halved / total : matches / total);
  }
  return result;
}

/// A row of statistics: h, r, c_1, t_1, c_2, t_2, ...
void append_row(std::vector<double>& rows, const BleuStatistics& sentence, int order) {
  rows.insert(rows.end(), {double(sentence.hypothesis_length), double(sentence.reference_length)});
  for (std::size_t n = 0; n < std::size_t(order); ++n) {
    rows.insert(rows.end(), {double(sentence.matches[n]), double(sentence.totals[n])});
  }
}

/// Sums over examples; of several systems they are means, and are rounded.
BleuStatistics from_row(std::span<const double> row) {
  BleuStatistics sums;
  sums.hypothesis_length = std::llround(row[0]);
  sums.reference_length = std::llround(row[1]);
  for (std::size_t n = 0; 2 * n + 3 < row.size(); ++n) {
    sums.matches[n] = std::llround(row[2 * n + 2]);
    sums.totals[n] = std::llround(row[2 * n + 3]);
  }
  return sums;
}

SummedMetric summed(std::span<const BleuStatistics> sentences, int order,
                    const std::function<double(const BleuStatistics&)>& score) {
  SummedMetric metric{.width = 2 + 2 * std::size_t(order),
                      .of_sums = [score](std::span<const double> sums) { return score(from_row(sums)); }};
  for (const BleuStatistics& sentence : sentences) append_row(metric.statistics, sentence, order);
  return metric;
}

std::string precisions_shown(const BleuStatistics& sums, BleuSmoothing smoothing) {
  const std::vector<double> p = precisions(sums, 4, smoothing);
  return fmt::format("{:.1f}/{:.1f}/{:.1f}/{:.1f}", 100 * p[0], 100 * p[1], 100 * p[2], 100 * p[3]);
}

double length_ratio(const BleuStatistics& sums) {
  return sums.reference_length == 0 ? 0 : double(sums.hypothesis_length) / double(sums.reference_length);
}

}  // namespace

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  for (std::size_t n = 0; n < highest; ++n) matches[n] += other.matches[n], totals[n] += other.totals[n];
  return *this;
}

BleuStatistics bleu_statistics(const std::string& hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "BLEU: there is no reference");
  std::vector<Words> texts{split_words(hypothesis)};
  for (const std::string& reference : references) texts.push_back(split_words(reference));

  BleuStatistics result;
  result.hypothesis_length = std::int64_t(texts[0].size());
  auto distance = [&](std::size_t length) { return std::abs(std::int64_t(length) - result.hypothesis_length); };
  auto nearer = [&](const Words& a, const Words& b) {
    return std::pair(distance(a.size()), a.size()) < std::pair(distance(b.size()), b.size());
  };
  result.reference_length = std::int64_t(std::min_element(texts.begin() + 1, texts.end(), nearer)->size());

  NgramNumbers ngrams(texts);
  for (std::size_t n = 0; n < highest; ++n) {
    if (n > 0) ngrams.lengthen();
    std::vector<int> most(std::size_t(ngrams.distinct()), 0);  // in one reference
    for (std::size_t t = 1; t < texts.size(); ++t) {
      const std::vector<int> counts = ngrams.counts(t);
      for (std::size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], counts[k]);
    }
    result.totals[n] = std::int64_t(ngrams.of(0).size());
    result.matches[n] = overlap(ngrams.counts(0), most);
  }
  return result;
}

std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const std::vector<std::string>> references) {
  require(hypotheses.size() == references.size(), "BLEU: {} hypotheses, references for {}", hypotheses.size(),
          references.size());
  std::vector<BleuStatistics> sentences;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    sentences.push_back(bleu_statistics(hypotheses[i], references[i]));
  }
  return sentences;
}

BleuStatistics sum(std::span<const BleuStatistics> sentences) {
  BleuStatistics result;
  for (const BleuStatistics& sentence : sentences) result += sentence;
  return result;
}

double brevity_penalty(const BleuStatistics& sums) {
  if (sums.hypothesis_length >= sums.reference_length) return 1;
  if (sums.hypothesis_length == 0) return 0;
  return std::exp(1 - double(sums.reference_length) / double(sums.hypothesis_length));
}

double bleu(const BleuStatistics& sums, int order, BleuSmoothing smoothing) {
  if (smoothing == BleuSmoothing::add_one && sums.reference_length == 0) return 0;
  double logarithms = 0;
  for (double p : precisions(sums, order, smoothing)) logarithms += std::log(p);  // log 0 makes the product 0
  return 100 * brevity_penalty(sums) * std::exp(logarithms / order);
}

double ngram_precision(const BleuStatistics& sums, int n, BleuSmoothing smoothing) {
  return 100 * precisions(sums, n, smoothing).back();
}

double smoothed_sentence_bleu(std::span<const BleuStatistics> sentences) {
  std::vector<double> scores;
  for (const BleuStatistics& sentence : sentences) scores.push_back(bleu(sentence, 4, BleuSmoothing::add_one));
  return mean(scores);
}

std::string multi_bleu_line(const BleuStatistics& sums) {
  return fmt::format("BLEU = {:.2f}, {} (BP={:.3f}, ratio={:.3f}, hyp_len={}, ref_len={})", bleu(sums),
                     precisions_shown(sums, BleuSmoothing::none), brevity_penalty(sums), length_ratio(sums),
                     sums.hypothesis_length, sums.reference_length);
}

std::string sacrebleu_line(const BleuStatistics& sums, const std::string& signature) {
  return fmt::format("BLEU|{} = {:.2f} {} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", signature,
                     bleu(sums, 4, BleuSmoothing::exponential), precisions_shown(sums, BleuSmoothing::exponential),
                     brevity_penalty(sums), length_ratio(sums), sums.hypothesis_length, sums.reference_length);
}

std::string sacrebleu_signature(std::size_t references, bool lower_case, const std::string& tokenization) {
  return fmt::format("nrefs:{}|case:{}|eff:no|tok:{}|smooth:exp|version:fovea.0.1.0", references,
                     lower_case ? "lc" : "mixed", tokenization);
}

SummedMetric bleu_metric(std::span<const BleuStatistics> sentences, int order, BleuSmoothing smoothing) {
  return summed(sentences, order, [=](const BleuStatistics& sums) { return bleu(sums, order, smoothing); });
}

SummedMetric precision_metric(std::span<const BleuStatistics> sentences, int n, BleuSmoothing smoothing) {
  return summed(sentences, n, [=](const BleuStatistics& sums) { return ngram_precision(sums, n, smoothing); });
}

}  // namespace fovea
