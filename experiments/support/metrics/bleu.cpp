#include "experiments/support/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "experiments/support/metrics/ngrams.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

std::int64_t matches(const BleuStatistics& sums, std::size_t n) { return sums[2 * n]; }
std::int64_t totals(const BleuStatistics& sums, std::size_t n) { return sums[2 * n + 1]; }
double hypothesis_length(const BleuStatistics& sums) { return double(sums[0]); }
double reference_length(const BleuStatistics& sums) { return double(sums[1]); }

/// p_1, ..., p_order, 0 to 1.
std::vector<double> precisions(const BleuStatistics& sums, int order, BleuSmoothing smoothing) {
  require(order >= 1 && order <= bleu_orders, "BLEU: n-grams of {} words, expected 1 to {}", order, bleu_orders);
  const double more = smoothing == BleuSmoothing::add_one ? 1 : 0;
  bool any_match = false;
  for (std::size_t n = 1; n <= std::size_t(order); ++n) any_match = any_match || matches(sums, n) > 0;
  double halved = 1;
  std::vector<double> result;
  for (std::size_t n = 1; n <= std::size_t(order); ++n) {
    const double own = double(matches(sums, n)) + more, total = double(totals(sums, n)) + more;
    const bool to_smooth = own == 0 && total > 0 && any_match && smoothing == BleuSmoothing::exponential;
    if (to_smooth) halved /= 2;
    result.push_back(total == 0 ? 0 : to_smooth ? halved / total : own / total);
  }
  return result;
}

std::string precisions_shown(const BleuStatistics& sums, BleuSmoothing smoothing) {
  const std::vector<double> p = precisions(sums, 4, smoothing);
  return fmt::format("{:.1f}/{:.1f}/{:.1f}/{:.1f}", 100 * p[0], 100 * p[1], 100 * p[2], 100 * p[3]);
}

double brevity_penalty(const BleuStatistics& sums) {
  if (hypothesis_length(sums) >= reference_length(sums)) return 1;
  if (hypothesis_length(sums) == 0) return 0;
  return std::exp(1 - reference_length(sums) / hypothesis_length(sums));
}

double length_ratio(const BleuStatistics& sums) {
  return reference_length(sums) == 0 ? 0 : hypothesis_length(sums) / reference_length(sums);
}

}  // namespace

BleuStatistics bleu_statistics(const std::string& hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "BLEU: there is no reference");
  std::vector<Words> texts{split_words(hypothesis)};
  for (const std::string& reference : references) texts.push_back(split_words(reference));

  const auto distance = [&](const Words& text) { return std::abs(std::ssize(text) - std::ssize(texts[0])); };
  const auto nearer = [&](const Words& a, const Words& b) {
    return std::pair(distance(a), a.size()) < std::pair(distance(b), b.size());
  };
  BleuStatistics result{std::ssize(texts[0]), std::ssize(*std::min_element(texts.begin() + 1, texts.end(), nearer))};
  NgramNumbers ngrams(texts);
  for (std::size_t n = 1; n <= bleu_orders; ++n) {
    if (n > 1) ngrams.lengthen();
    std::vector<int> most(std::size_t(ngrams.distinct()), 0);  // in one reference
    for (std::size_t t = 1; t < texts.size(); ++t) {
      const std::vector<int> counts = ngrams.counts(t);
      for (std::size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], counts[k]);
    }
    result[2 * n] = overlap(ngrams.counts(0), most);
    result[2 * n + 1] = std::int64_t(ngrams.of(0).size());
  }
  return result;
}

double bleu(const BleuStatistics& sums, int order, BleuSmoothing smoothing) {
  if (smoothing == BleuSmoothing::add_one && reference_length(sums) == 0) return 0;
  double logarithms = 0;
  for (double p : precisions(sums, order, smoothing)) logarithms += std::log(p);  // log 0 makes the product 0
  return 100 * brevity_penalty(sums) * std::exp(logarithms / order);
}

double ngram_precision(const BleuStatistics& sums, int n, BleuSmoothing smoothing) {
  return 100 * precisions(sums, n, smoothing).back();
}

std::string multi_bleu_line(const BleuStatistics& sums) {
  return fmt::format("BLEU = {:.2f}, {} (BP={:.3f}, ratio={:.3f}, hyp_len={}, ref_len={})", bleu(sums),
                     precisions_shown(sums, BleuSmoothing::none), brevity_penalty(sums), length_ratio(sums), sums[0],
                     sums[1]);
}

std::string sacrebleu_line(const BleuStatistics& sums, const std::string& signature) {
  return fmt::format("BLEU|{} = {:.2f} {} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", signature,
                     bleu(sums, 4, BleuSmoothing::exponential), precisions_shown(sums, BleuSmoothing::exponential),
                     brevity_penalty(sums), length_ratio(sums), sums[0], sums[1]);
}

std::string sacrebleu_signature(std::size_t references, bool lower_case, const std::string& tokenization) {
  return fmt::format("nrefs:{}|case:{}|eff:no|tok:{}|smooth:exp|version:fovea.0.1.0", references,
                     lower_case ? "lc" : "mixed", tokenization);
}

SummedMetric bleu_metric(std::span<const BleuStatistics> sentences, int order, BleuSmoothing smoothing) {
  return counted_metric<BleuStatistics().size()>(
      sentences, 2 + 2 * std::size_t(order), [=](const BleuStatistics& sums) { return bleu(sums, order, smoothing); });
}

SummedMetric precision_metric(std::span<const BleuStatistics> sentences, int n, BleuSmoothing smoothing) {
  return counted_metric<BleuStatistics().size()>(sentences, 2 + 2 * std::size_t(n), [=](const BleuStatistics& sums) {
    return ngram_precision(sums, n, smoothing);
  });
}

}  // namespace fovea
