/// Numbers of the papers, to stand beside our own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// A table of a paper, with those of its rows that belong to compared models.
struct PaperTable {
  struct Row {
    std::string name;            ///< as the paper calls it
    std::vector<double> values;  ///< a value for each column; NaN: not in the paper
  };
  std::string caption, metric;  ///< the beginning of the metric's name: "BLEU"
  std::vector<std::string> columns;
  std::vector<std::optional<Row>> rows;  ///< one for each of the configurations
};

/// The papers' tables in which at least two of the configurations (config.json of runs) have a row. A model is
/// recognised by its attentions and the order of its sub-layers, not by its size nor by the layers and heads on which a
/// method acts.
std::vector<PaperTable> paper_tables(const std::string& program, const std::vector<Json>& configurations);

}  // namespace fovea
