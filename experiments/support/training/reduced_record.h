/// Records without the texts of the data, small enough to be kept in a repository. They have the configuration, the
/// scores, the evaluations of the training, and for each test example the numbers that scores are sums of, so that
/// tables, tests between rows and intervals can be made from them.
///
///   result.json                as in a full record, with every option of the run; paths below the directory of data
///                              begin with {data}
///   run.json                   date, version, processor and threads of each start
///   log.jsonl                  the lines with evaluations
///   statistics.SET.jsonl.gz    of the test set SET: a line that names the scores, then a line for each column of their
///                              statistics, with a value for each example. A number stands for the column with that
///                              number, from 0; {"column": n, "plus": values} for the sum of column n and the values;
///                              and "NAME" for the column in the file NAME.json.gz
///   ../columns/NAME.json.gz    a column that is the test set's, such as the lengths of references, and is shared by
///                              the records beside each other. NAME is the CRC-32 of its text
#pragma once
#include <filesystem>

#include "experiments/support/training/record.h"

namespace fovea {

/// Writes the reduced record of a finished run into a new directory.
void save_reduced(const RunResult& run, const std::filesystem::path& data, const std::filesystem::path& directory);

/// Writes the statistics of a test, compressed by gzip.
void save_statistics(const TestResult& test, const std::filesystem::path& file);

/// Reads examples without texts, and the scores, into a test whose metrics and options are set. Throws Error, with file
/// and line, for a file that save_statistics() did not write.
void load_statistics(TestResult& test, const std::filesystem::path& file);

}  // namespace fovea
