#include "experiments/support/report/paper_numbers.h"

#include <array>
#include <map>

#include "attention/specification.h"

namespace fovea {

namespace {

struct Corpus {
  std::size_t column;
  const char* setting;
};

// Tensor2Tensor's transformer_tiny and its problems, to which the paper's footnote 4 points.
const std::map<std::string, Corpus> corpora = {
    {"SST-2",
     {0, "3000 updates on the phrases of GLUE's SST-2, sub-words (2^14), tested on its 872 development sentences"}},
    {"IMDB", {1, "10000 updates on all 25000 training reviews, sub-words (2^13), tested on the 25000 test reviews"}},
    {"SVA",
     {2,
      "10000 updates on 9 % of Linzen's 1.6 million sentences, tested on the hard subset of the rest (no noun "
      "between subject and verb, or attractors only)"}},
};

struct Row {
  const char* name;
  std::array<double, 3> accuracy;  ///< SST-2, IMDB, SVA
};

const std::map<std::string, Row> rows = {
    {"global", {"Vaswani", {79.36, 83.65, 94.48}}},    {"relative", {"Shaw", {79.73, 84.61, 95.27}}},
    {"gaussian", {"Yang", {79.24, 84.13, 95.00}}},     {"multiplicative", {"Enc (MW)", {79.70, 85.09, 95.95}}},
    {"additive", {"Enc (AW)", {82.13, 87.98, 96.19}}},
};

/// The row of a method with its options; "" where an option makes it something else than the paper's.
std::string row_key(const MethodText& method) {
  std::string key = method.name == "window" ? "multiplicative" : method.name;
  for (const OptionText& option : method.options) {
    bool says_where = option.name == "layers" || option.name == "heads";
    bool is_default = (option.name == "window" && option.value == "query") ||
                      (option.name == "mask" && option.value == "paper") ||
                      (option.name == "segment" && option.value == "1");
    if (option.name == "use") {
      key = option.value;
    } else if (!says_where && !is_default && option.name != "clip") {
      return "";
    }
  }
  return key;
}

}  // namespace

std::optional<PaperRow> paper_row(const std::string& corpus, const std::string& attention) {
  auto known = corpora.find(corpus);
  std::vector<MethodText> methods = parse_specification(attention);
  if (known == corpora.end() || methods.size() != 1) return std::nullopt;
  auto row = rows.find(row_key(methods.front()));
  if (row == rows.end()) return std::nullopt;
  return PaperRow{row->second.name, row->second.accuracy[known->second.column]};
}

std::string paper_setting(const std::string& corpus) {
  auto known = corpora.find(corpus);
  return known == corpora.end() ? "" : known->second.setting;
}

}  // namespace fovea
