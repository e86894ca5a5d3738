/// The metrics of text files by name: what `score` offers and training watches.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/metrics/rouge.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/metrics/tokenization.h"
#include "experiments/support/text/lines.h"

namespace fovea {

struct TextMetricOptions {
  Tokenization tokenization = Tokenization::mteval_13a;  ///< of sacreBLEU
  /// Nothing: as the metric's own program does by default, which is in lower case for RIBES, ROUGE and mteval.
  std::optional<bool> lower_case = {};
  RougeOptions rouge = {};
};

/// A score of a set of sentences, ready to be resampled.
struct TextScore {
  std::string name;  ///< "BLEU", "ROUGE-2 F1"
  SummedMetric metric;
  int decimals = 2;
  std::string line = {};  ///< what the metric's own program prints; empty: nothing more than the value
};

struct TextMetric {
  std::string name, description;
};

/// All metrics: bleu, sacrebleu, mteval, ngrams, sentence-bleu, chrf, chrf++, ribes, rouge, accuracy, perplexity, aer.
std::vector<TextMetric> text_metrics();

/// The scores of a metric: one for most of them. Line i of every reference belongs to line i of the hypotheses.
/// Throws Error for a name that is none, with the nearest that is; for files of different length; with file and line
/// for lines that the metric cannot read.
std::vector<TextScore> text_scores(const std::string& metric, const TextFile& hypotheses,
                                   std::span<const TextFile> references, const TextMetricOptions& options = {});

}  // namespace fovea
