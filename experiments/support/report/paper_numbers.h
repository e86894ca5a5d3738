/// What papers report on data sets that the programs read: to stand beside our own numbers.
#pragma once
#include <optional>
#include <string>

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

}  // namespace fovea
