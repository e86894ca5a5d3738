/// The flags by which commands of `analyze` choose runs, sentences and attentions.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/program/cli.h"

namespace fovea {

using Runs = std::vector<std::filesystem::path>;

/// The parts of a data set by their names.
inline const std::vector<std::pair<std::string, Part>> named_parts{
    {"train", Part::train}, {"dev", Part::dev}, {"test", Part::test}};

class RunFlags {
 public:
  /// Declares RUN, or with `several` RUNS and --names. The Cli refers to this object until it has parsed.
  RunFlags(Cli& cli, bool several);

  void add_set(Cli& cli);        ///< --set
  void add_sentences(Cli& cli);  ///< --set, --sentences
  void add_sentence(Cli& cli);   ///< --sentence
  void add_place(Cli& cli);      ///< --place, --layer, --sub-layer
  void add_head(Cli& cli);       ///< --head

  /// The directories. Throws Error if there is none.
  Runs all() const;
  /// The names of the runs: those of --names, or else titles_of() them. Throws Error for another number of names.
  std::vector<std::string> names() const;
  /// The directory. Throws Error unless there is one.
  std::filesystem::path one() const;
  std::unique_ptr<AnalyzedRun> open() const { return AnalyzedRun::open(one(), part); }
  /// The head, counted from 1; 0: the mean; empty: all.
  std::optional<std::int64_t> chosen_head() const;

  Part part = Part::test;
  std::int64_t most_sentences = 200;  ///< the first ones; 0: all
  std::string sentence = "0", head = "all";
  AttentionChoice attention;

 private:
  bool several_;
  std::vector<std::string> given_;
  std::optional<std::string> names_;
};

}  // namespace fovea
