/// Finished runs of any date, read from their directories, and which of them can be compared.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/comparison_table.h"

namespace fovea {

/// Reads the runs in the directories: each is the directory of a run, or contains such directories at any depth, as
/// that of a comparison does, or has kept runs (kept_runs.h). A run that is named twice is read once; the trials of a
/// search are left out. Throws Error for a directory without a record of a run.
struct LoadedRuns {
  std::vector<RunResult> runs;
  std::vector<std::string> damaged;  ///< for each damaged record: its file, and what is wrong
};
LoadedRuns load_runs(const std::vector<std::filesystem::path>& directories);

/// A short name for tables: the run's row in its comparison; without one, the name of its directory, or of a kept run
/// the row of a sheet that it was made for.
std::string title_of(const RunResult& run);

/// The program that made the run; "run" if its configuration does not say so.
std::string program_of(const RunResult& run);

/// Runs of one program that were tested on the same examples: their scores can be compared. Each row has the runs whose
/// options agree in everything but the seed; rows have different titles.
struct RunGroup {
  std::string title;  ///< "translate: generated:train=200, test: 20 examples"
  std::vector<ComparedRow> rows;
};

/// The groups in the order of their first runs. Of two runs with the same options and the same seed only the first
/// stays, and of the trials of a search the best for each row.
std::vector<RunGroup> comparable_groups(const std::vector<RunResult>& runs);

/// Equal texts for runs of one program that were tested on the same examples.
std::string key_of_examples(const RunResult& run);

/// Whether two runs are the same model with the same training, but perhaps for the seed. Of a kept run, which an
/// earlier version of the program may have made, only the options count that both have, and not the metrics of its
/// test.
bool agree_but_for_seed(const RunResult& a, const RunResult& b);

/// The value of a key as text; empty if the object does not have the key, or is none.
std::string text_at(const Json& object, const std::string& key);

/// "2026-11-23 to 2026-11-24 with fovea 0.1 (1a2b3c) on host (processor): translate --data ...". Of several commands
/// only the number is given. Empty without starts.
std::string summary_of(const std::vector<Json>& starts);

/// Two lines with date, version, machine and command: of the making of the runs, as far as it is known, and of this
/// process, which was started by `command`: "Runs made 2026-11-23 to 2026-11-24 with fovea 0.1 (1a2b3c) on host
/// (processor), by 3 commands". `starts` are those of runs without a directory.
std::string origin_of(const std::vector<std::filesystem::path>& runs, const std::string& command,
                      std::vector<Json> starts = {});

/// Removes the lines of origin_of() from a program's output or from the description in an SVG file: they name machines
/// and directories.
std::string without_origin(const std::string& text);

/// The options of rows, without those that say how and where runs are made.
struct RowOptions {
  std::vector<std::pair<std::string, std::vector<std::string>>> differing;  ///< with a value for each row
  Json common = Json::object();                                             ///< those that all rows share
};
RowOptions options_of(const std::vector<ComparedRow>& rows);

}  // namespace fovea
