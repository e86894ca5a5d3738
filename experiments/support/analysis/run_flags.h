/// How a command of `analyze` chooses runs, sentences, attentions and heads, and what it collects over them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/report/finding.h"

namespace fovea {

using Runs = std::vector<std::filesystem::path>;

/// The parts of a data set by their names.
inline const std::vector<std::pair<std::string, Part>> named_parts{
    {"train", Part::train}, {"dev", Part::dev}, {"test", Part::test}};

class RunFlags {
 public:
  /// Groups of flags, to be added up. Without `several`, a command reads one RUN.
  enum Group : unsigned {
    several = 1,     ///< RUNS, --names
    set = 2,         ///< --set, and --data too
    sentences = 4,   ///< --sentences
    sentence = 8,    ///< --sentence
    text = 16,       ///< --text, --target
    attention = 32,  ///< --place, --layer, --sub-layer
    head = 64,       ///< --head
    data = 128       ///< --data
  };
  /// Declares the flags. The Cli refers to this object until it has parsed.
  RunFlags(Cli& cli, unsigned groups);
  RunFlags(const RunFlags&) = delete;

  /// The directories. Throws Error if there is none.
  Runs runs() const;
  /// The names of the runs: those of --names, or else their titles. Throws Error for another number of names.
  std::vector<std::string> names() const;
  /// The directory. Throws Error unless there is one.
  std::filesystem::path run() const;
  std::unique_ptr<AnalyzedRun> open(const std::filesystem::path& run) const {
    return AnalyzedRun::open(run, part, data_flags(run));
  }
  /// --data, if it is given, for the options of a run. Throws Error for a model of Hugging Face, which has no data, if
  /// the command reads some and none are chosen.
  std::vector<std::string> data_flags(const std::filesystem::path& run) const;
  /// The own text, or the chosen sentence and those after it, `count` in all.
  std::vector<SentenceView> views(std::size_t count = 1) const;
  /// The number of sentences that --sentences chooses.
  std::size_t sentences_of(AnalyzedRun& run) const;
  /// The head, counted from 1; 0: the mean; empty: all.
  std::optional<std::int64_t> chosen_head() const;
  bool has_own_text() const { return text_.has_value(); }

  Part part = Part::test;
  std::int64_t most_sentences = 200;  ///< the first ones; 0: all
  std::int64_t first_sentence = 0;
  std::string head_name = "all";
  AttentionChoice choice;

 private:
  const Cli& cli_;
  bool several_, reads_data_;
  std::string data_;  ///< --data; empty: that of the run
  std::vector<std::string> given_;
  std::optional<std::string> names_, text_, target_;
};

/// A curve over `first`, `first` + 1, ...
Series curve_of(const std::string& name, const std::vector<double>& y, bool dashed = false, double first = 0);

/// Values under headings, in order.
using Columns = std::vector<std::pair<std::string, std::vector<double>>>;

/// A row for each token, with its number, the token and its values.
Table table_of_tokens(const char* what, const std::vector<std::string>& tokens, const Columns& columns,
                      int decimals = 3);

/// Values of one head of an attention over all chosen sentences.
struct HeadSample {
  std::string run;
  AttentionView attention;  ///< without tokens and quantities
  std::int64_t head = 0;    ///< from 1; 0: all heads together
  Columns values;           ///< of each quantity

  /// "encoder, layer 1"
  std::string place() const { return fmt::format("{}, layer {}", name_of(attention.place), attention.layer); }
};

/// The quantities of one head of an attention in one sentence; empty for an attention that is left out.
using HeadQuantities = std::function<Columns(const AttentionView& view, std::int64_t head)>;

constexpr std::int64_t every_head = std::numeric_limits<std::int64_t>::max();

struct Samples {
  std::size_t sentences = 0;  ///< of the last run
  std::vector<HeadSample> heads;
};
/// Collects the quantities of heads `first_head` to `last_head` (or the last that there is) of every attention in the
/// first sentences of all chosen runs, with the trained parameters or the initial ones. Throws Error for a run in which
/// no attention has any: "none of its attentions has {what}".
Samples samples_of(const RunFlags& flags, std::int64_t first_head, std::int64_t last_head, const std::string& what,
                   const HeadQuantities& quantities, bool are_initial = false);

/// A row for each head, with the mean and the standard deviation of each quantity.
Table table_of(const Samples& samples, int decimals);

}  // namespace fovea
