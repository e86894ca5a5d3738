/// The HTML page of a comparison: table, scores, the papers' numbers, learning curves, examples, and pictures of
/// attentions.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/comparison_table.h"

namespace fovea {

struct ComparisonReport {
  std::string program, data;        ///< the program's name; a line about the data
  std::vector<ComparedRow> rows;    ///< one trial each
  std::vector<ComparedRow> trials;  ///< all trials of a search; without one the same as `rows`
  Json configuration;
};

/// Writes the page, of less than 1 MB. Reads only the records in the runs' directories.
void write_report(const std::filesystem::path& path, const ComparisonReport& report);

}  // namespace fovea
