/// The commands of `analyze`; how they choose runs, sentences, attentions and heads, and what they collect over them.
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

// ---- The commands of `analyze`. Each declares its flags, parses the command line, and returns what it finds.

// Commands about one sentence (sentence_findings.cpp)
Finding attention_of_sentence(
    Cli& cli);                     ///< quantities as maps or curves, or of one query (Yang et al. 2018, figure 1)
Finding decoding_steps(Cli& cli);  ///< gate, focus, window of each step. Shu & Nakayama 2017, figure 1
Finding alignments(Cli& cli);      ///< weights with gold links, error rates. Luong et al. 2015, figure 7

// Distributions over sentences (distributions.cpp)
Finding widths(Cli& cli);  ///< centers and widths of each layer and head. Yang et al. 2018, figures 2 and 3
Finding mass(Cli& cli);    ///< the attention within distances, of all layers. Fan et al. 2021, table 5
Finding starts(Cli& cli);  ///< where and how wide methods look, with initial and with trained parameters

// Scores of finished runs (score_findings.cpp)
Finding scores_by_length(Cli& cli);
Finding ngram_gaps(Cli& cli);  ///< Yang et al. 2018, figure 4
Finding trade_off(Cli& cli);   ///< over the values of an option at test time. Shu & Nakayama 2017, figure 3

Finding model_description(Cli& cli);  ///< sub-layers, equations, parameters. Fan et al. 2021, figure 2

// Computations without a run
Finding computation(Cli& cli);  ///< an attention on given numbers. Nguyen et al. 2020, figures 1 and 2
Finding identities(Cli& cli);   ///< statements of the papers, both sides computed

/// The specification with the option set in every method that has it; empty if none has.
std::string with_option(const std::string& specification, const std::string& name, const std::string& value);

}  // namespace fovea
