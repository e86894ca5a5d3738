/// BLEU: Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation".
///
///   BLEU = 100 BP exp(1/N sum_n log p_n),  p_n = c_n / t_n,  BP = min(1, exp(1 - r / h))
///
/// c_n is the number of n-grams of the hypotheses that a reference also has (each counts at most as often as it occurs
/// in one reference), t_n the number of all their n-grams, h the number of words of the hypotheses and r that of the
/// references. If a sentence has several references, r counts the one nearest in length, and the shorter of two equally
/// near. All are sums over the sentences. Words are separated by white space here; tokenization.h has other
/// definitions.
#pragma once
#include <span>
#include <string>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

/// h, r, c_1, t_1, c_2, t_2, ..., for n up to 9, as many as mteval reports.
constexpr int bleu_orders = 9;
using BleuStatistics = Counts<2 + 2 * bleu_orders>;

BleuStatistics bleu_statistics(const std::string& hypothesis, std::span<const std::string> references);

enum class BleuSmoothing {
  none,         ///< multi-bleu: 0 if any c_n is
  exponential,  ///< mteval-v13a, sacreBLEU's exp: the k-th order without a match has p_n = 1 / (2^k t_n)
  add_one,      ///< (c_n + 1) / (t_n + 1) for every n, by which Shu & Nakayama 2017 choose models; Lin & Och 2004 do
                ///< so for n > 1 only. For single sentences
};

/// Returns BLEU, 0 to 100. It is 0 if no n-gram matches, except with add_one, and if the sentences are too short for an
/// n-gram of the highest order. With add_one it is 0 if the reference is empty.
double bleu(const BleuStatistics& statistics, int order = 4, BleuSmoothing smoothing = BleuSmoothing::none);

/// Returns p_n, 0 to 100, which mteval calls the individual n-gram score.
double ngram_precision(const BleuStatistics& statistics, int n, BleuSmoothing smoothing = BleuSmoothing::none);

/// The line that multi-bleu.perl prints: `BLEU = 56.96, 92.0/77.3/47.4/31.2 (BP=1.000, ratio=1.000, hyp_len=25,
/// ref_len=25)`.
std::string multi_bleu_line(const BleuStatistics& statistics);

/// The line that sacreBLEU prints, with its signature:
/// `BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:... = 56.96 92.0/77.3/47.4/31.2 (BP = 1.000 ratio =
/// ...)`.
std::string sacrebleu_line(const BleuStatistics& statistics, const std::string& signature);

/// nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:fovea.0.1.0
std::string sacrebleu_signature(std::size_t references, bool lower_case, const std::string& tokenization);

/// BLEU as a metric that can be resampled.
SummedMetric bleu_metric(std::span<const BleuStatistics> sentences, int order, BleuSmoothing smoothing);

/// p_n as a metric that can be resampled.
SummedMetric precision_metric(std::span<const BleuStatistics> sentences, int n, BleuSmoothing smoothing);

}  // namespace fovea
