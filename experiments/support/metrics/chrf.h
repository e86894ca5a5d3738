/// chrF: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation"; chrF++ counts words too: Popović
/// 2017, "chrF++: words helping character n-grams".
///
///   chrF = 100 (1 + b^2) P R / (b^2 P + R),  b = 2
///
/// P and R are the means of the precisions and recalls of n-grams of characters, n = 1 to 6, and in chrF++ also of
/// n-grams of words, n = 1 and 2. Orders of which the hypotheses or the references have no n-gram do not count. White
/// space is removed before characters are counted. n-grams are counted over all sentences; a sentence with several
/// references counts with the one that gives it the highest score. The values are those of sacreBLEU 2.
#pragma once
#include <span>
#include <string>

#include "experiments/support/metrics/statistics.h"

namespace fovea {

/// Three counts for each length of n-gram: n-grams of the hypothesis, of the reference, and those that match. The first
/// six lengths are 1 to 6 characters, the last two 1 and 2 words, whose counts are zeros in chrF.
using ChrfStatistics = Counts<3 * 8>;

/// `with_words` for chrF++. Throws Error if there is no reference.
ChrfStatistics chrf_statistics(const std::string& hypothesis, std::span<const std::string> references, bool with_words);

/// 0 to 100; 0 where nothing matches.
double chrf(const ChrfStatistics& statistics);

SummedMetric chrf_metric(std::span<const ChrfStatistics> sentences);

/// The score with its signature, in the form that sacreBLEU prints:
/// `chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:fovea.0.1.0 = 48.72`.
std::string chrf_line(double score, std::size_t references, bool lower_case, bool with_words);

}  // namespace fovea
