/// Runs that are kept in a repository: a line each, without the texts of the data. They have the configuration, the
/// scores, the evaluations of the training, and for each test example the numbers that scores are sums of, so that
/// tables, tests between rows and intervals can be made from them.
///
///   PAPER.jsonl         a line for each run: what its result.json has, the names of the rows that it was made for, its
///                       evaluations and starts. `options` are those that differ from options.json; paths below the
///                       directory of data begin with {data}. PAPER is what the name of its first row begins with
///   options.json        for each program its options, with the values that most runs had
///   examples.jsonl.gz   a line for each test of a run: the number of words of each example's input (`lengths`), the
///                       scores, with the number of columns that each has, and the columns, with a value for each
///                       example. A number in place of a column stands for the column of the same line with this
///                       number, from 0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/record/record.h"

namespace fovea {

/// The directory of the runs that are kept with the programs: experiments/results.
std::filesystem::path kept_runs_directory();

/// All runs of the directory, in the order of its files; none for a directory without any. Throws Error, with file and
/// line, for a file that save_kept_runs() did not write.
std::vector<RunResult> load_kept_runs(const std::filesystem::path& directory);

/// Whether the single examples of a score are kept, beside those of the first score.
using KeepsScore = std::function<bool(const RunResult&, const std::string& score)>;

/// Adds finished runs, which have names (RunResult::name) and were made for rows. A run whose name is there already
/// replaces the old one; the lines of all others stay as they are. `data`: the directory of data.
void save_kept_runs(const std::vector<RunResult>& runs, const std::filesystem::path& data, const KeepsScore& keeps,
                    const std::filesystem::path& directory);

}  // namespace fovea
