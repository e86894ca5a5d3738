/// What becomes of the attentions that are compared, over seeds.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/table.h"
#include "experiments/support/training/classification_training.h"

namespace fovea {

struct FinishedRun {
  Outcome outcome;
  std::filesystem::path directory;
};

/// The runs of one attention, a seed each.
struct ComparedAttention {
  std::string attention;
  std::vector<FinishedRun> runs;

  std::vector<double> accuracies() const;         ///< on the test examples, of each run, in percent
  double steps_per_second() const;                ///< mean
  std::vector<double> scores_by_example() const;  ///< how often each test example was right, in percent
  const FinishedRun& best() const;                ///< on the development examples; the first one of equals
};

/// The best run of all, on the development examples.
const FinishedRun& best_of(const std::vector<ComparedAttention>& compared);

/// A row for each attention: accuracy, that within each group of examples, parameters, speed, and how likely the
/// difference from the first row is chance.
Table comparison_table(const std::vector<ComparedAttention>& compared, const ClassificationData& data);

/// What the columns of the table are.
std::string comparison_caption(const std::vector<ComparedAttention>& compared, const ClassificationData& data);

}  // namespace fovea
