/// Parts that several analyses of trained runs use: names of runs, tables of tokens, values of heads over sentences.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/support/analysis/run_flags.h"
#include "experiments/support/report/finding.h"

namespace fovea {

/// The titles of the runs. Equal titles are followed by the directories.
std::vector<std::string> titles_of(const Runs& runs);

/// A curve over `first`, `first` + 1, ...
Series curve_of(const std::string& name, const std::vector<double>& y, bool dashed = false, double first = 0);

/// Values under headings, in order.
using Columns = std::vector<std::pair<std::string, std::vector<double>>>;

/// A row for each token, with its number, the token and its values.
Table table_of_tokens(const char* what, const std::vector<std::string>& tokens, const Columns& columns,
                      int decimals = 3);

/// The name with spaces for underscores.
std::string spaced(std::string name);

/// "encoder, layer 1"
std::string place_text(const AttentionView& view);

/// Values of one head of an attention over all chosen sentences.
struct HeadSample {
  std::string run;
  AttentionView attention;  ///< without tokens and quantities
  std::int64_t head = 0;    ///< from 1; 0: all heads together
  Columns values;           ///< of each quantity
};

struct Samples {
  std::size_t sentences = 0;  ///< of the last run
  std::vector<HeadSample> heads;
};

/// The quantities of one head of an attention in one sentence; empty for an attention that is left out.
using HeadQuantities = std::function<Columns(const AttentionView& view, std::int64_t head)>;

/// Collects the quantities of heads `first_head` to `last_head` (or the last that there is) of every attention in the
/// chosen sentences of all runs. Throws Error for a run in which no attention has any: "none of its attentions has
/// {what}".
Samples samples_of(const RunFlags& flags, std::int64_t first_head, std::int64_t last_head, const std::string& what,
                   const HeadQuantities& quantities);

/// A row for each head, with the mean and the standard deviation of each quantity.
Table table_of(const Samples& samples, int decimals);

}  // namespace fovea
