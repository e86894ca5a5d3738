/// The page that a comparison of sequence models leaves: the table, curves, where the attentions look, and examples.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"
#include "experiments/support/sequence/sequence_data.h"
#include "nn/sequence_model.h"

namespace fovea {

/// A row of the table.
struct ReportedModel {
  std::string title;
  std::vector<std::filesystem::path> runs = {};               ///< directories, a seed each
  std::vector<std::vector<TextScore>> scores = {};            ///< of the test part, of each run; may be none
  std::size_t best = 0;                                       ///< of `runs`, on the development set
  std::function<std::unique_ptr<SequenceModel>()> load = {};  ///< the best run's model
};

struct ReportedSequences {
  std::string program, description;  ///< of the pairs
  const SequenceData& data;
  Table table;
  std::string dev_score;  ///< as metrics.csv calls it, behind "dev_"
  std::vector<ReportedModel> models;
  Json configuration;
};

/// Writes the page, which is below 1 MB. What runs leave in their directories it reads there: metrics.csv, config.json,
/// hypotheses.txt.
void write_report(const std::filesystem::path& path, const ReportedSequences& reported);

}  // namespace fovea
