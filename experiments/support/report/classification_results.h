/// What becomes of the classifiers that are compared, over seeds.
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

/// A row of the comparison: its runs, a seed each.
struct ComparedClassifier {
  std::string title;
  EncoderModelOptions model;
  std::vector<FinishedRun> runs;

  std::vector<double> accuracies() const;         ///< on the test examples, of each run, in percent
  double steps_per_second() const;                ///< mean
  std::vector<double> scores_by_example() const;  ///< how often each test example was right, in percent
  const FinishedRun& best() const;                ///< on the development examples; the first one of equals
};

/// The row with the best run of all, on the development examples.
const ComparedClassifier& best_of(const std::vector<ComparedClassifier>& compared);

/// A row for each: accuracy, that within each group of examples, parameters, speed, and how likely the
/// difference from the first row is chance.
Table comparison_table(const std::vector<ComparedClassifier>& compared, const ClassificationData& data);

/// What the columns of the table are.
std::string comparison_caption(const std::vector<ComparedClassifier>& compared, const ClassificationData& data);

}  // namespace fovea
