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
#include <string>
#include <vector>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/comparison.h"
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
  /// runs. Opened, and locked, at the first call. If the experiment fails before it has made an update, a new directory
  /// is removed again, unless processes share it, and the files of --resume stay as they were.
  const RunDirectory& directory();

 protected:
  /// Makes, or tests, the run of a plan.
  using Body = std::function<RunResult(std::size_t plan, const Run&)>;

  explicit ExperimentBase(Cli& cli) : cli_(cli) {}
  /// Starts processes and the device of the parsed command line, and plans the runs, without their configurations.
  void start(const TrainingOptions& training);
  /// Calls action(). An error names the row of the plan.
  void with_row(const Run& plan, const std::function<void()>& action) const;
  void train(const PairData& data, const Body& body);
  void test(bool json, const Body& body);

  Cli& cli_;
  ExperimentFlags flags_;
  std::vector<Run> plans_;
  std::vector<TrainingOptions> trainings_;  ///< of each plan

 private:
  /// Whether this process makes some runs of an experiment, and other processes make others in the same directory.
  bool shares_directory() const;
  void begin();
  void remember_configuration();
  void begin_training(const Run& run);
  Run run_of(std::size_t k);
  std::filesystem::path place_of(const Run& run);
  void open(Run& run);
  void print_warnings() const;
  std::optional<RunResult> finished_result(const Run& run);
  void make_here(const PairData& data, const Body& body);
  std::string command_of(const Run& run, const std::string& only, int threads);
  RunFailures make_with_ninja();
  std::vector<RunResult> finished_results(const RunFailures& failed);
  void write_table(const std::vector<RunResult>& results, const std::string& data_description);
  RunResult result_of(const Run& run, std::size_t k, const Body& body);

  std::shared_ptr<RunDirectory> directory_;  ///< of the experiment
  bool has_begun_ = false;                   ///< a new directory has something to keep
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
    start(options_.training);
    for (Run& plan : plans_)
      with_row(plan, [&] {
        ExperimentFlags flags;
        Cli own(cli, plan.arguments);
        Options& row = rows_.emplace_back();
        row.add_to(own);
        flags.add_to(own);
        own.parse();
        if constexpr (requires { row.continues = true; }) row.continues = !flags.directory.resume.empty();
        plan.configuration = own.configuration();
        trainings_.push_back(row.training);
      });
  }

  /// The options of the command line, without any row's.
  const Options& options() const { return options_; }

  /// Calls visit(name of the row, its options) for every row. An error names the row.
  void for_rows(const std::function<void(const std::string& name, const Options&)>& visit) const {
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      if (k > 0 && plans_[k].row == plans_[k - 1].row && plans_[k].trial == plans_[k - 1].trial) continue;  // a seed
      with_row(plans_[k], [&] { visit(plans_[k].row, rows_[k]); });
    }
  }

  /// Calls check(options of the row) for every row. An error names the row.
  void check(const std::function<void(const Options&)>& check) const {
    for_rows([&](const std::string&, const Options& row) { check(row); });
  }

  /// Trains every row with every seed: body(options, run) trains and tests a model and returns the results. Finished
  /// runs are not repeated. With --jobs ninja makes the runs, each in a process that has read its own data. The last
  /// process that works in the directory prints the table and writes the report.
  void train(const PairData& data, const std::function<RunResult(const Options&, const Run&)>& body) {
    ExperimentBase::train(data, [&](std::size_t k, const Run& run) { return body(rows_[k], run); });
  }

  /// Tests a trained model with the options of every row: body(options, run) loads it, tests it and returns the result.
  /// Prints the table, or with `json` an object for each row. Keeps records if --out is given.
  void test(bool json, const std::function<RunResult(const Options&, const Run&)>& body) {
    ExperimentBase::test(json, [&](std::size_t k, const Run& run) { return body(rows_[k], run); });
  }

 private:
  Options options_;
  std::vector<Options> rows_;  ///< the options of each plan
};

}  // namespace fovea
