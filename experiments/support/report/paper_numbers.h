/// What papers report on data sets that the programs read: to stand beside our own numbers.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// A row of Nguyen et al. 2020, Table 5: accuracy of tiny classifiers that differ in their attention.
struct PaperRow {
  std::string name;  ///< as the paper calls it
  double accuracy;   ///< in percent
};

/// The row that an attention's specification stands for, on `corpus` ("SST-2", "IMDB", "SVA"). Nothing for other data,
/// and for attentions that the paper does not have; where a method acts (layers, heads) does not count.
std::optional<PaperRow> paper_row(const std::string& corpus, const std::string& attention);

/// How the paper's numbers on `corpus` came about, as far as it is known: half a sentence.
std::string paper_setting(const std::string& corpus);

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

/// The papers' tables in which at least two of the configurations (config.json of runs with sequence models) have a
/// row. A model is told by its attentions and the order of its sub-layers; where a method acts does not count, nor does
/// its size.
std::vector<PaperTable> paper_tables(const std::string& program, const std::vector<Json>& configurations);

}  // namespace fovea
