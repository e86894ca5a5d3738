/// Trained classifiers.
#pragma once
#include <functional>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/classification/classification_options.h"
#include "experiments/support/data/labelled_texts.h"

namespace fovea {

/// Opens a run with these options, those of its config.json; `load` reads its data.
std::unique_ptr<AnalyzedRun> open_classifier_run(const std::filesystem::path& run, const ClassificationOptions& options,
                                                 std::function<LabelledTexts()> load, Part part);

}  // namespace fovea
