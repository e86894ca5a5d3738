/// An experiment: the rows of a comparison times seeds, each of which is a run of its own.
///
///   struct Options { ...; void add_to(Cli& cli); };           // the values of all flags of one row
///   Experiment<Options> experiment(cli, "what the program does");
///   experiment.check([](const Options& row) { ... });         // refuses a row before anything is computed
///   const Data data(experiment.options(), experiment.directory());
///   experiment.train(data, [&](const Options& row, const Run& run) { ...; return result; });
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/comparison.h"
#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/training/shared_work.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// --compare, --seeds, --search, --jobs, --only, --out, --resume.
struct ExperimentFlags {
  Comparison comparison{"--attention"};
  std::int64_t seeds = 1;
  std::string search, made_for;
  int jobs = 1;
  std::optional<std::string> only;  ///< "3/15"; empty: all runs
  RunDirectory::Options directory;

  void add_to(Cli& cli);
  /// Whether there is only one run, which is then the experiment's directory itself.
  bool is_alone() const { return !comparison.is_given() && seeds == 1 && search.empty(); }
  /// The numbers, from 0, of those of the `all` runs that this process makes: every one, or with --only one. Throws
  /// Error for an --only that does not fit.
  std::vector<std::size_t> own_runs(std::size_t all) const;
};

/// Why runs failed, by their numbers, from 0.
using RunFailures = std::map<std::size_t, std::string>;

/// The part of Experiment that does not depend on the type of the options.
class ExperimentBase {
 public:
  ~ExperimentBase();
  ExperimentBase(const ExperimentBase&) = delete;
  ExperimentBase& operator=(const ExperimentBase&) = delete;

  /// The directory of the experiment: a new one, or that of --resume, or with --only that of processes that make other
  /// runs. Opened, and locked, at the first call. If the experiment fails before its first run begins, a new directory
  /// is removed again.
  const RunDirectory& directory();

 protected:
  using Body = std::function<RunResult(std::size_t plan, const Run&)>;
  using SaveData = std::function<void(const std::filesystem::path& directory)>;

  explicit ExperimentBase(Cli& cli) : cli_(cli) {}
  /// The plans of the parsed command line, without their configurations.
  std::vector<Run> plans() const;
  void train(const std::vector<Run>& plans, const std::string& data_description, const SaveData& save_data,
             const Body& body);
  void test(const std::vector<Run>& plans, bool json, const Body& body);

  Cli& cli_;
  ExperimentFlags flags_;
  std::function<void()> before_training_;  ///< called once, unless all runs are finished

 private:
  /// Whether this process makes some runs of an experiment, and other processes make others in the same directory.
  bool shares_directory() const;
  void begin();
  Run run_of(const std::vector<Run>& plans, std::size_t k);
  std::filesystem::path place_of(const Run& run);
  void open(Run& run);
  std::optional<RunResult> finished_result(const Run& run);
  void make_here(const std::vector<Run>& plans, const SaveData& save_data, const Body& body);
  std::string command_of(const Run& run, const std::string& only, int threads);
  RunFailures make_with_ninja(const std::vector<Run>& plans);
  std::vector<RunResult> finished_results(const std::vector<Run>& plans, const RunFailures& failed);
  void write_table(const std::vector<RunResult>& results, const std::string& data_description);
  RunResult result_of(const Run& run, std::size_t k, const std::function<RunResult()>& body);

  std::shared_ptr<RunDirectory> directory_;  ///< of the experiment
  bool has_begun_ = false;
};

template <class Options>
class Experiment : public ExperimentBase {
 public:
  /// Parses the command line, and every row's. Sets threads and precision for this process (options.training).
  Experiment(Cli& cli, const std::string& about) : ExperimentBase(cli) {
    cli.describe(about);
    options_.add_to(cli);
    flags_.add_to(cli);
    cli.parse();
    if (options_.training.processes > 1) start_together(options_.training.processes, cli.arguments());
    require_same_start(cli, flags_.directory.out.string() + flags_.directory.resume.string());
    require(processes().size() == 1 || flags_.jobs == 1,
            "--jobs {}: makes several runs at the same time; {} processes train one together. Use one or the other",
            flags_.jobs, processes().size());
    started_device(cli, options_.training.device);  // throws where there is no GPU
    options_.training.apply();
    plans_ = plans();
    for (Run& plan : plans_) {
      auto declare_and_parse = [&] {
        ExperimentFlags flags;
        Cli own(cli, plan.arguments);
        rows_.emplace_back().add_to(own);
        flags.add_to(own);
        own.parse();
        if constexpr (requires(Options & row) { row.continues = true; })
          rows_.back().continues = !flags.directory.resume.empty();
        plan.configuration = own.configuration();
      };
      has_rows() ? with_flag(name_of(plan), declare_and_parse) : declare_and_parse();
    }
  }

  /// The options of the command line, without any row's.
  const Options& options() const { return options_; }

  /// Calls visit(name of the row, its options) for every row. An error names the row.
  void for_rows(const std::function<void(const std::string& name, const Options&)>& visit) const {
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      if (k > 0 && plans_[k].row == plans_[k - 1].row && plans_[k].trial == plans_[k - 1].trial) continue;  // a seed
      auto one = [&] { visit(plans_[k].row, rows_[k]); };
      has_rows() ? with_flag(name_of(plans_[k]), one) : one();
    }
  }

  /// Calls check(options of the row) for every row. An error names the row.
  void check(const std::function<void(const Options&)>& check) const {
    for_rows([&](const std::string&, const Options& row) { check(row); });
  }

  /// Trains every row with every seed: body(options, run) trains and tests a model and returns the results. Finished
  /// runs are not repeated. With --jobs ninja makes the runs, each in a process that has read its own data. The last
  /// process that works in the directory prints the table and writes the report. data.description() is a line for the
  /// report; data.save(directory) writes vocabulary and data.json into a run's directory.
  template <class Data>
  void train(const Data& data, const std::function<RunResult(const Options&, const Run&)>& body) {
    before_training_ = [&] { print_warnings(); };
    ExperimentBase::train(
        plans_, data.description(), [&](const std::filesystem::path& directory) { data.save(directory); },
        [&](std::size_t k, const Run& run) { return result(k, run, body); });
  }

  /// Tests a trained model with the options of every row: body(options, run) loads it, tests it and returns the result.
  /// Prints the table, or with `json` an object for each row. Keeps records if --out is given.
  void test(bool json, const std::function<RunResult(const Options&, const Run&)>& body) {
    ExperimentBase::test(plans_, json, [&](std::size_t k, const Run& run) { return result(k, run, body); });
  }

 private:
  void print_warnings() const {
    if (flags_.only) return;         // one process of many makes this run
    std::set<std::string> warnings;  // the rows often have the same
    for (const Options& row : rows_) warnings.insert(row.training.warmup_warning());
    for (const std::string& warning : warnings)
      if (!warning.empty()) fmt::print(stderr, "{}\n", warning);
  }
  /// Applies the row's own precision and threads first.
  RunResult result(std::size_t k, const Run& run, const std::function<RunResult(const Options&, const Run&)>& body) {
    rows_[k].training.apply();
    return body(rows_[k], run);
  }
  bool has_rows() const { return flags_.comparison.is_given() || !flags_.search.empty(); }
  std::string name_of(const Run& plan) const {
    if (!plan.trial.empty()) return "--search: '" + plan.row + " " + plan.trial + "'";
    return "--compare: '" + plan.row + "'";
  }

  Options options_;
  std::vector<Run> plans_;
  std::vector<Options> rows_;  ///< the options of each plan
};

}  // namespace fovea
