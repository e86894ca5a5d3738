/// What papers report on data sets that the programs read: to stand beside our own numbers.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// A table of a paper, as far as it has rows for models that are compared here.
struct PaperTable {
  struct Row {
    std::string name;            ///< as the paper calls it
    std::vector<double> values;  ///< of the columns; NaN: not in the paper
  };
  std::string caption, metric;  ///< "BLEU": the beginning of its name
  std::vector<std::string> columns;
  std::vector<std::optional<Row>> rows;  ///< one for each of the configurations
};

/// The papers' tables in which at least two of the configurations (config.json of runs) have a row. A model is
/// recognised by its attentions and the order of its sub-layers. Neither its size counts, nor the layers and heads on
/// which a method acts.
std::vector<PaperTable> paper_tables(const std::string& program, const std::vector<Json>& configurations);

}  // namespace fovea
