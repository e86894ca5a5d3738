/// The metrics of text files by name, for `score` and for the evaluation of sequence models.
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
  /// If not set, each metric treats case as its original program: RIBES, ROUGE and mteval compare lower-cased text.
  std::optional<bool> lower_case = {};
  RougeOptions rouge = {};
  std::int64_t links_from = 0, gold_from = 0;  ///< the number of the first word in links of hypotheses, of references
};

/// A score of a set of sentences, which can be resampled.
struct TextScore {
  std::string name;  ///< "BLEU", "ROUGE-2 F1"
  SummedMetric metric;
  int decimals = 2;
  std::string line = {};  ///< what the metric's own program prints; empty: nothing more than the value
};

struct TextMetric {
  std::string name, description;
};

/// All metrics, with a line for readers on each.
std::vector<TextMetric> text_metrics();

/// Returns the scores of a metric; most metrics have one. Line i of every reference belongs to line i of the
/// hypotheses. Throws Error for an unknown metric, with the most similar name; for files with different numbers of
/// lines; and, with file and line, for a line that the metric cannot read.
std::vector<TextScore> text_scores(const std::string& metric, const TextFile& hypotheses,
                                   std::span<const TextFile> references, const TextMetricOptions& options = {});

}  // namespace fovea
