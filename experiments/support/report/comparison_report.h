/// The page that a comparison leaves: table, scores, the papers' numbers, learning curves, examples, and where the
/// attentions look.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "experiments/support/report/comparison_table.h"

namespace fovea {

struct ComparisonReport {
  std::string program, data;        ///< name; a line about the data
  std::vector<ComparedRow> rows;    ///< one trial each
  std::vector<ComparedRow> trials;  ///< all of them; the same as `rows` without a search
  Json configuration;
};

/// Writes the page, which is below 1 MB. It is made from the records in the runs' directories alone.
void write_report(const std::filesystem::path& path, const ComparisonReport& report);

}  // namespace fovea
