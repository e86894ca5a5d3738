/// Trained encoder-decoders and language models.
#pragma once
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/models/sequence_options.h"

namespace fovea {

/// Opens a run with these options, those of its config.json.
std::unique_ptr<AnalyzedRun> open_sequence_run(const std::filesystem::path& run, SequenceOptions options, Part part);

}  // namespace fovea
