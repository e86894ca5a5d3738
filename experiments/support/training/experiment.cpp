#include "experiments/support/training/experiment.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/core.h>
#include <omp.h>

#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/ninja.h"
#include "experiments/support/program/start_together.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/shared_work.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/control_groups.h"

namespace fovea {

namespace {

/// The trials of a search such as "rate={3e-4,1e-3}; dropout={0,0.1}": one row for each combination of the values, with
/// its flags and a title such as "rate=3e-4 dropout=0".
std::vector<Comparison::Row> trials_of(const std::string& search) {
  if (search.empty()) return {{"", {}}};
  std::string flags, titles;
  int depth = 0;
  bool begins = true;
  for (char c : search) {
    const bool separates = depth == 0 && (c == ' ' || c == ';');
    depth += c == '{' || c == '(' ? 1 : c == '}' || c == ')' ? -1 : 0;
    if (!separates) flags += (begins ? (flags.empty() ? "--" : " --") : "") + std::string(1, c);
    begins = separates;
  }
  std::vector<Comparison::Row> trials;
  std::set<std::string> directories;
  for (const GridPoint& one : grid_points(flags)) {
    std::string title;
    std::set<std::string> flags_of_trial;
    for (const std::string& argument : arguments_of(one.text)) {
      title += (title.empty() ? "" : " ") + argument.substr(2);
      const std::string flag = argument.substr(0, argument.find('='));
      require(flags_of_trial.insert(flag).second, "--search '{}': {} has values twice", search, flag);
    }
    require(directories.insert(file_name_for(title)).second, "--search '{}': '{}' is there twice", search, title);
    trials.push_back({title, arguments_of(one.text)});
  }
  require(trials.size() > 1, "--search '{}': there is only one trial; write \"rate={{3e-4,1e-3,3e-3}}\"", search);
  return trials;
}

/// The options that decide when a run is finished. --resume with other values continues the run.
Json goal_of(const Json& configuration) {
  return {{"updates", configuration.at("updates")}, {"patience", configuration.at("patience")}};
}

std::filesystem::path output_of(const std::filesystem::path& run) { return run / "output.txt"; }

/// Why the run failed: the error that it printed last, or without one that it was killed.
std::string failure_of(const std::string& program, const std::filesystem::path& run) {
  std::string last;
  std::ifstream file(output_of(run));
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  const std::string before = program + ": ", where = "its output is in " + output_of(run).string();
  return last.starts_with(before) ? fmt::format("{}; {}", last.substr(before.size()), where)
                                  : fmt::format("its process was killed; {}", where);
}

Device device_of(const Cli& cli) { return parse_device(cli.configuration().at("device").get<std::string>()); }

std::vector<ComparedRow> grouped(const std::vector<RunResult>& results) {
  std::vector<ComparedRow> rows;
  for (const RunResult& result : results) {
    if (rows.empty() || rows.back().title != result.row || rows.back().trial != result.trial)
      rows.push_back({result.row, result.trial, {}});
    rows.back().runs.push_back(result);
  }
  return rows;
}

}  // namespace

void ExperimentFlags::add_to(Cli& cli) {
  cli.group("Comparison");
  cli.rare("--made-for", made_for,
           "rows of the papers' tables that the run is made for, separated by ';', as in \"nguyen-table-6: Vaswani\": "
           "`report --sheet` puts it there");
  cli.comparable(false);
  comparison.add_to(cli);
  cli.option("--seeds", seeds, "runs of each row, with the seeds --seed, --seed + 1, ...").range(1, 1000);
  cli.rare("--search", search,
           "values of flags to try in every row, as in \"rate={3e-4,1e-3}; dropout={0,0.1}\"; the best trial on the "
           "development set stands for its row");
  cli.option("--jobs", jobs,
             "runs of the comparison to make at a time, each in a process of its own; without --threads each has an "
             "equal share of the cores")
      .range(1, 1000)
      .unsaved();
  cli.rare("--only", only,
           "make run K of N alone, as in 3/15, in the directory of --out or --resume; other processes make the other "
           "runs there, also on other machines, and the last one makes the table")
      .unsaved();
  directory.add_to(cli);
}

std::vector<std::size_t> ExperimentFlags::own_runs(std::size_t all) const {
  std::vector<std::size_t> runs(all);
  std::iota(runs.begin(), runs.end(), 0);
  if (!only) return runs;
  const std::vector<std::string_view> parts = split_columns(*only, '/');
  const auto one = number<std::size_t>(parts.front()), of = number<std::size_t>(parts.back());
  require(parts.size() == 2 && one && of, "--only '{}': expected K/N, as in 1/{}: run K of the N runs", *only, all);
  require(*of == all, "--only {}: there {} (rows x trials x seeds); write {}/{}", *only,
          all == 1 ? "is 1 run" : fmt::format("are {} runs", all), std::clamp<std::size_t>(*one, 1, all), all);
  require(*one >= 1 && *one <= all, "--only {}: the runs are numbered 1 to {}", *only, all);
  require(!directory.out.empty() || !directory.resume.empty(),
          "--only {}: --out is missing, the directory in which the processes make their runs", *only);
  return {*one - 1};
}

ExperimentBase::~ExperimentBase() {
  if (directory_ && !has_begun_ && directory_->is_new()) directory_->discard();
}

void ExperimentBase::start(const TrainingOptions& training) {
  if (training.processes > 1) start_together(training.processes, cli_.arguments());
  require_same_start(cli_, flags_.directory.out.string() + flags_.directory.resume.string());
  require(processes().size() == 1 || flags_.jobs == 1,
          "--jobs {}: makes several runs at the same time; {} processes train one together. Use one or the other",
          flags_.jobs, processes().size());
  started_device(cli_, training.device);  // throws where there is no GPU
  training.apply();
  const auto first = cli_.configuration().at("seed").get<std::uint64_t>();
  require(first <= std::numeric_limits<std::uint64_t>::max() - std::uint64_t(flags_.seeds - 1),
          "--seed {}: too large for --seeds {}", first, flags_.seeds);
  for (const Comparison::Row& row : flags_.comparison.rows(cli_))
    for (const Comparison::Row& trial : trials_of(flags_.search)) {
      for (const std::string& argument : trial.arguments)
        require(!argument.starts_with("--select="), "--search: {}: trials are compared by one score", argument);
      for (std::int64_t k = 0; k < flags_.seeds; ++k) {
        Run plan{row.title, trial.title, first + std::uint64_t(k), row.arguments};
        plan.arguments.insert(plan.arguments.end(), trial.arguments.begin(), trial.arguments.end());
        for (const std::string& argument : plan.arguments)
          require(!argument.starts_with("--seed="),
                  "{}: cannot differ between rows and trials; --seeds gives each several seeds", argument);
        if (!flags_.is_alone()) plan.arguments.push_back(fmt::format("--seed={}", plan.seed));
        plans_.push_back(std::move(plan));
      }
    }
  flags_.own_runs(plans_.size());  // throws for a wrong --only
}

void ExperimentBase::with_row(const Run& plan, const std::function<void()>& action) const {
  if (!flags_.comparison.is_given() && flags_.search.empty()) return action();
  with_flag(plan.trial.empty() ? "--compare: '" + plan.row + "'" : "--search: '" + plan.row + " " + plan.trial + "'",
            action);
}

bool ExperimentBase::shares_directory() const { return !flags_.is_alone() && (flags_.jobs > 1 || flags_.only); }

const RunDirectory& ExperimentBase::directory() {
  if (directory_) return *directory_;
  RunDirectory::Options options = flags_.directory;
  options.joins = flags_.only.has_value();
  options.access = shares_directory() ? Access::shared : Access::alone;
  directory_ = std::make_shared<RunDirectory>(RunDirectory::open(cli_.program(), options, cli_.configuration()));
  return *directory_;
}

/// The run of a plan, without its directory.
Run ExperimentBase::run_of(std::size_t k) {
  Run run = plans_[k];
  run.resume = directory().path().string() + (flags_.only ? " --only " + *flags_.only : "");
  if (!flags_.is_alone()) run.configuration.update({{"compare", ""}, {"seeds", 1}, {"search", ""}});
  return run;
}

/// A run has a directory of its own, unless it is alone.
std::filesystem::path ExperimentBase::place_of(const Run& run) {
  return flags_.is_alone() ? directory().path() : directory().path_of_part(run.title());
}

/// Opens the directory of the run, which no other process may make.
void ExperimentBase::open(Run& run) {
  run.directory = directory_;
  if (flags_.is_alone()) return;
  run.directory = std::make_shared<RunDirectory>(directory().part(run.title()));
  if (!std::filesystem::exists(run.directory->configuration()))
    save_json(run.directory->configuration(), run.configuration);
}

/// The result of a run that is finished. Throws Error for a result of another configuration, and for that of a run that
/// has made more updates than it should.
std::optional<RunResult> ExperimentBase::finished_result(const Run& run) {
  std::optional<RunResult> result = load_result(place_of(run), true);
  if (!result) return {};
  require(result->training || !result->failure.empty(),
          "{}: has the results of a test, and no training that could continue", place_of(run).string());
  require_same_configuration(place_of(run) / "result.json", result->configuration, run.configuration,
                             changeable_options);
  const std::int64_t wanted = run.configuration.at("updates");
  const bool is_finished = result->goal == goal_of(run.configuration);
  if (!is_finished && result->training && result->training->updates > wanted)
    fail("--updates {}: {} has made {} updates already", wanted, run.title(), result->training->updates);
  if (!is_finished) return {};
  result->row = run.row;  // a run that was resumed on its own has another title
  result->trial = run.trial;
  return result;
}

/// Prints each warning of the rows once.
void ExperimentBase::print_warnings() const {
  if (flags_.only) return;  // one process of many makes this run
  std::set<std::string> warnings;
  for (const TrainingOptions& training : trainings_) warnings.insert(training.warmup_warning());
  for (const std::string& warning : warnings)
    if (!warning.empty()) fmt::print(stderr, "{}\n", warning);
}

/// Calls body() and completes its result with row, trial, seed and directory. If the training diverges, the result has
/// the message as its failure.
RunResult ExperimentBase::result_of(const Run& run, std::size_t k, const Body& body) {
  RunResult result;
  trainings_[k].apply();  // the row's own precision and threads
  try {
    result = body(k, run);
  } catch (const Diverged& diverged) {
    result.failure = diverged.what();
    if (!flags_.is_alone()) fmt::print(stderr, "{}: {}\n", run.title(), diverged.what());  // the others go on
  } catch (const LostProcess&) {
    has_begun_ = true;  // nothing was wrong: --resume continues, if only from the initial values
    throw;
  }
  result.row = run.row;
  result.trial = run.trial;
  result.seed = run.seed;
  if (!flags_.is_alone()) result.number = k + 1;
  result.configuration = run.configuration;
  result.goal = goal_of(run.configuration);
  if (run.directory) result.directory = run.directory->path();
  return result;
}

/// The data are prepared: processes that wait for them begin.
void ExperimentBase::begin() {
  const bool writes_own_start = shares_directory() && flags_.only;  // into the directory of its run
  if (!writes_own_start && (directory_->is_new() || shares_directory())) {
    directory_->take_turn();
    save_start(directory_->path(), cli_.command(), device_of(cli_));
  }
  has_begun_ = has_begun_ || shares_directory();
  directory_->end_turn();
}

/// Writes the configuration of this command line over that of a directory which had another one.
void ExperimentBase::remember_configuration() {
  const Json now = cli_.configuration();
  if (load_json(directory_->configuration()) == now) return;
  directory_->take_turn();
  save_json(directory_->configuration(), now);
  directory_->end_turn();
}

/// A run has made an update, has restored a checkpoint, or is finished: what it was told holds for its directory from
/// here on.
void ExperimentBase::begin_training(const Run& run) {
  remember_configuration();
  if (run.directory != directory_) save_json(run.directory->configuration(), run.configuration);
  if (!has_begun_ && !directory_->is_new() && !shares_directory())
    save_start(directory_->path(), cli_.command(), device_of(cli_));
  has_begun_ = true;
}

void ExperimentBase::train(const PairData& data, const Body& body) {
  directory();
  begin();
  RunFailures failed;
  if (flags_.jobs > 1 && flags_.own_runs(plans_.size()).size() > 1)
    failed = make_with_ninja();
  else
    make_here(data, body);
  if (!processes().is_first()) return;  // the first process has all results, and makes the table
  directory_->take_turn();
  if (!directory_->is_last()) {
    fmt::print("\nOther processes make runs in {}: the last one makes the table.\n", directory_->path().string());
  } else if (const auto results = finished_results(failed); results.size() < plans_.size()) {
    fmt::print("\n{} of {} are finished: the last one makes the table. So far: report {}\n", results.size(),
               counted(plans_.size(), "run"), directory_->path().string());
  } else {
    write_table(results, data.description());
  }
  std::fflush(stdout);
  require(failed.empty(), "{} of {} failed; --resume {} --jobs {} tries again", failed.size(),
          counted(plans_.size(), "run"), directory_->path().string(), flags_.jobs);
}

/// Makes the runs of this process one after another.
void ExperimentBase::make_here(const PairData& data, const Body& body) {
  const std::vector<std::size_t> own = flags_.own_runs(plans_.size());
  // One for all runs: a signal during a test is still there when the next run would begin.
  const InterruptGuard guard(processes().is_first() ? InterruptGuard::usual_notice : "");
  double seconds = 0;
  std::int64_t trained = 0;
  std::vector<Run> finished;
  for (std::size_t at = 0; at < own.size(); ++at) {
    Run run = run_of(own[at]);
    open(run);
    if (is_true_in_first_process([&] { return finished_result(run).has_value(); })) {
      finished.push_back(std::move(run));
      continue;
    }
    if (trained > 0 && interrupted_anywhere())
      throw Interrupted(fmt::format("stopped before run {} of {}; --resume {} continues", at + 1, own.size(),
                                    directory_->path().string()));
    if (trained == 0) print_warnings();
    run.begun = [this, &run] { begin_training(run); };
    run.number = std::int64_t(at) + 1;
    run.runs = std::ssize(own);
    if (run.directory != directory_) data.save(run.directory->path());
    if (shares_directory()) save_start(run.directory->path(), cli_.command(), device_of(cli_));
    if (trained > 0) run.seconds_of_others = seconds / double(trained) * double(own.size() - at - 1);
    const SpentTime before = SpentTime::until_now();
    const RunResult result = result_of(run, own[at], body);
    if (!has_begun_) begin_training(run);  // it diverged in its first update
    save_result(result);
    seconds += (SpentTime::until_now() - before).wall;
    ++trained;
  }
  for (const Run& run : finished) begin_training(run);  // remembers what it was told
}

/// The command that makes a run: that of this process, with flags behind it that have precedence. What it prints is in
/// output.txt, whose last line is the reason of a failure.
std::string ExperimentBase::command_of(const Run& run, const std::string& only, int threads) {
  std::vector<std::string> words = cli_.arguments();
  std::vector<std::string> flags = {"--only=" + only, "--jobs=1", "--processes=1",
                                    fmt::format("--threads={}", threads)};
  if (flags_.directory.resume.empty()) flags.push_back("--out=" + directory_->path().string());
  words.insert(std::ranges::find(words, "--"), flags.begin(), flags.end());
  words.insert(words.begin(), cli_.program());
  return program_command(std::move(words), output_of(place_of(run)), threads);
}

/// Lets ninja make the runs of this process, --jobs at a time. Returns the reasons of those that failed.
RunFailures ExperimentBase::make_with_ninja() {
  std::vector<std::size_t> missing;
  for (const std::size_t k : flags_.own_runs(plans_.size()))
    if (!finished_result(run_of(k))) missing.push_back(k);
  remember_configuration();
  if (missing.empty()) return {};
  print_warnings();
  const int jobs = std::min(flags_.jobs, int(missing.size()));
  const int threads = cli_.given("threads") ? omp_get_max_threads() : std::max(1, omp_get_max_threads() / jobs);
  const int cores = std::min(omp_get_num_procs(), processors_of_quota());
  if (jobs * threads > cores)
    fmt::print(stderr, "warning: --jobs {} with {} each: more than the {} of this machine\n", flags_.jobs,
               counted(std::size_t(threads), "thread"), counted(std::size_t(cores), "core"));
  std::vector<NinjaStep> steps;
  for (const std::size_t k : missing) {
    const Run run = run_of(k);
    const std::filesystem::path place = place_of(run);
    std::filesystem::create_directories(place);
    // The output is a file that nothing writes, so that ninja makes every run, and a result stays until the next one.
    steps.push_back(
        {place / "unwritten", {}, command_of(run, fmt::format("{}/{}", k + 1, plans_.size()), threads), run.title()});
  }
  write_file_atomically(directory_->file("build.ninja"), ninja_file(steps, directory_->file(".ninja")));
  try {
    run_ninja(directory_->file("build.ninja"), jobs);
  } catch (const Interrupted&) {
    const auto finished =
        std::ranges::count_if(missing, [&](std::size_t k) { return finished_result(run_of(k)).has_value(); });
    throw Interrupted(fmt::format("stopped with {} of {} finished; --resume {} --jobs {}{} continues", finished,
                                  counted(steps.size(), "run"), directory_->path().string(), flags_.jobs,
                                  cli_.given("threads") ? fmt::format(" --threads {}", threads) : ""));
  }
  RunFailures failed;
  for (std::size_t k = 0; k < steps.size(); ++k)
    if (!finished_result(run_of(missing[k]))) {
      const std::string reason = failure_of(cli_.program(), steps[k].output.parent_path());
      fmt::print(stderr, "{}: failed: {}\n", steps[k].description, reason);
      failed[missing[k]] = reason;
    }
  return failed;
}

/// The results of the runs that are finished, and of those that failed in this process.
std::vector<RunResult> ExperimentBase::finished_results(const RunFailures& failed) {
  std::vector<RunResult> results;
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    const Run run = run_of(k);
    if (const auto failure = failed.find(k); failure != failed.end())
      results.push_back({.row = run.row,
                         .trial = run.trial,
                         .seed = run.seed,
                         .directory = place_of(run),
                         .configuration = run.configuration,
                         .failure = failure->second});
    else if (std::optional<RunResult> result = finished_result(run))
      results.push_back(std::move(*result));
  }
  return results;
}

/// Prints the table and writes the report.
void ExperimentBase::write_table(const std::vector<RunResult>& results, const std::string& data_description) {
  const std::vector<ComparedRow> trials = grouped(results), rows = without_lost_trials(trials);
  require(!all_failed(rows), "{}", rows.front().runs.front().failure);
  ComparisonReport report{.title = cli_.program(), .groups = {{"", rows}}};
  if (trials.size() > rows.size()) report.trials = trials;
  fmt::print("\n{}{}", comparison_table(rows).text(), folded_lines(comparison_caption(rows)));
  if (trials.size() > rows.size()) fmt::print("\n{}", trials_table(trials).text());
  std::fflush(stdout);
  Finding page = finding_of(report);
  page.origin = data_description;
  write_file_atomically(directory_->report(), contents_of(page, Format::html));
  const std::filesystem::path best = best_of(rows).best().directory;
  fmt::print("\n");
  if (best != directory_->path() && have_best(rows)) fmt::print("best model: {}\n", best.string());
  fmt::print("report: {}\nrun directory: {}\n", directory_->report().string(), directory_->path().string());
}

void ExperimentBase::test(bool json, const Body& body) {
  require(flags_.seeds == 1 && flags_.search.empty(), "--seeds and --search are for training; a test has one model");
  require(flags_.jobs == 1 && !flags_.only, "--jobs and --only are for training");
  const bool keeps = !flags_.directory.out.empty();
  std::vector<RunResult> results;
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    Run run = plans_[k];
    if (keeps) open(run = run_of(k));
    if (keeps) save_start(run.directory->path(), cli_.command(), device_of(cli_));
    has_begun_ = true;
    results.push_back(result_of(run, k, body));
    if (keeps) save_result(results.back());
    if (json) fmt::print("{}\n", text_of(to_json(results.back())));
  }
  if (json) return;
  const std::vector<ComparedRow> rows = grouped(results);
  fmt::print("\n{}{}", comparison_table(rows).text(), folded_lines(comparison_caption(rows)));
}

}  // namespace fovea
