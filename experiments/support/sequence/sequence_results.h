/// What runs with sequence models come to: in result.json, and as the rows of a table.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/table.h"
#include "experiments/support/sequence/sequence_testing.h"
#include "experiments/support/training/training.h"

namespace fovea {

struct SequenceOutcome {
  std::filesystem::path directory = {};  ///< of the run
  std::uint64_t seed = 1;
  std::int64_t parameters = 0;
  std::string dev_score = {};                   ///< what the score of `training` is: "BLEU"
  std::optional<TrainingResult> training = {};  ///< of models that this program has just trained
  SequenceTest test = {};
};

/// The runs of one row, a seed each.
struct ComparedModel {
  std::string title;
  std::vector<std::string> arguments;  ///< of the row
  std::vector<SequenceOutcome> runs;
};

/// A row for each; columns of what there is. p: two-sided paired bootstrap against the first row, of the first score of
/// the first seeds, or of perplexity where no text is decoded.
Table sequence_table(const std::vector<ComparedModel>& compared);

/// All that an outcome has, but for single sentences.
Json to_json(const std::string& title, const SequenceOutcome& outcome);

}  // namespace fovea
