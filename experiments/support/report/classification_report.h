/// The page that a comparison of classifiers leaves: tables, curves, and where the attentions look.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/classification_results.h"
#include "experiments/support/report/html.h"

namespace fovea {

/// Our accuracies in the rows of the paper's table; nullopt where no attention or data set is one of the paper's. A row
/// that differs from the first in more than its attention has no number beside it.
std::optional<Table> paper_table(const std::vector<ComparedClassifier>& compared, const std::string& corpus);

/// Writes the page, which is below 1 MB: where there are many models, some get no pictures.
void write_report(const std::filesystem::path& path, const std::string& program, const ClassificationSetting& setting,
                  const Tokenizer& tokenizer, const std::vector<ComparedClassifier>& compared,
                  const Json& configuration);

}  // namespace fovea
