#include "experiments/support/training/experiment.h"

#include <cstdio>
#include <limits>

#include <fmt/core.h>

#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/report/comparison_table.h"
#include "experiments/support/training/shared_work.h"

namespace fovea {

namespace {

/// "rate={3e-4,1e-3}; dropout={0,0.1}" as flags: the trials of a search, with their values: "rate=3e-4 dropout=0".
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
  for (const GridPoint& one : grid_points(flags)) {
    std::string title;
    for (const std::string& argument : arguments_of(one.text)) title += (title.empty() ? "" : " ") + argument.substr(2);
    trials.push_back({title, arguments_of(one.text)});
  }
  for (std::size_t k = 0; k < trials.size(); ++k)
    for (std::size_t other = 0; other < k; ++other)
      require(file_name_for(trials[k].title) != file_name_for(trials[other].title),
              "--search '{}': '{}' is there twice", search, trials[k].title);
  require(trials.size() > 1, "--search '{}': there is only one trial; write \"rate={{3e-4,1e-3,3e-3}}\"", search);
  return trials;
}

/// The options that decide when a run is finished. --resume with other values continues the run.
Json goal_of(const Json& configuration) {
  return {{"updates", configuration.at("updates")}, {"patience", configuration.at("patience")}};
}

/// Whether the result is that of the finished run. Throws Error for a result of another configuration.
bool is_finished(const std::optional<RunResult>& result, const Run& run) {
  if (!result) return false;
  require_same_configuration(run.directory->path() / "result.json", result->configuration, run.configuration,
                             changeable_options);
  return result->goal == goal_of(run.configuration);
}

std::vector<ComparedRow> grouped(const std::vector<RunResult>& results) {
  std::vector<ComparedRow> rows;
  for (const RunResult& result : results) {
    if (rows.empty() || rows.back().title != result.row || rows.back().trial != result.trial)
      rows.push_back({result.row, result.trial, {}});
    rows.back().runs.push_back(result);
  }
  return rows;
}

/// Keeps one trial of each row: the one with the best score on the development set.
std::vector<ComparedRow> without_lost_trials(const std::vector<ComparedRow>& trials) {
  std::vector<ComparedRow> rows;
  for (const ComparedRow& trial : trials) {
    if (rows.empty() || rows.back().title != trial.title)
      rows.push_back(trial);
    else if (trial.is_better_than(rows.back()))
      rows.back() = trial;
  }
  return rows;
}

}  // namespace

void ExperimentFlags::add_to(Cli& cli) {
  cli.comparable(false);
  cli.group("Comparison");
  comparison.add_to(cli);
  cli.option("--seeds", seeds, "runs of each row, with the seeds --seed, --seed + 1, ...").range(1, 1000);
  cli.option("--search", search,
             "values of flags to try in every row, as in \"rate={3e-4,1e-3}; dropout={0,0.1}\"; the best trial on the "
             "development set stands for its row")
      .rare();
  directory.add_to(cli);
}

ExperimentBase::~ExperimentBase() {
  if (directory_ && !has_begun_ && flags_.directory.resume.empty()) directory_->discard();
}

std::vector<PlannedRun> ExperimentBase::plans() const {
  const auto first = cli_.configuration().at("seed").get<std::uint64_t>();
  require(first <= std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(flags_.seeds - 1),
          "--seed {}: too large for --seeds {}", first, flags_.seeds);
  std::vector<PlannedRun> plans;
  for (const Comparison::Row& row : flags_.comparison.rows(cli_))
    for (const Comparison::Row& trial : trials_of(flags_.search)) {
      for (const std::string& argument : trial.arguments)
        require(!argument.starts_with("--select="), "--search: {}: trials are compared by one score", argument);
      for (std::int64_t k = 0; k < flags_.seeds; ++k) {
        PlannedRun plan{row.title, trial.title, first + static_cast<std::uint64_t>(k), row.arguments, {}};
        plan.arguments.insert(plan.arguments.end(), trial.arguments.begin(), trial.arguments.end());
        for (const std::string& argument : plan.arguments)
          require(!argument.starts_with("--seed="),
                  "{}: cannot differ between rows and trials; --seeds gives each several seeds", argument);
        if (!flags_.is_alone()) plan.arguments.push_back(fmt::format("--seed={}", plan.seed));
        plans.push_back(std::move(plan));
      }
    }
  return plans;
}

const RunDirectory& ExperimentBase::directory() {
  if (!directory_)
    directory_ =
        std::make_shared<RunDirectory>(RunDirectory::open(cli_.program(), flags_.directory, cli_.configuration()));
  return *directory_;
}

/// The run of a plan, in a directory of its own unless it is alone.
Run ExperimentBase::run_of(const std::vector<PlannedRun>& plans, std::size_t k) {
  const PlannedRun& plan = plans[k];
  Run run{.row = plan.row,
          .trial = plan.trial,
          .seed = plan.seed,
          .configuration = plan.configuration,
          .resume = directory().path(),
          .number = static_cast<std::int64_t>(k) + 1,
          .runs = std::ssize(plans),
          .directory = directory_};
  if (flags_.is_alone()) return run;
  run.configuration.update({{"compare", ""}, {"seeds", 1}, {"search", ""}});
  run.directory = std::make_shared<RunDirectory>(directory().part(run.title()));
  save_json(run.directory->configuration(), run.configuration);
  return run;
}

/// Calls body() and completes its result with row, trial, seed and directory. If the training diverges, the result has
/// the message as its failure.
RunResult ExperimentBase::result_of(const Run& run, const PlannedRun& plan, const std::function<RunResult()>& body) {
  RunResult result;
  try {
    result = body();
  } catch (const Diverged& diverged) {
    result.failure = diverged.what();
    if (!flags_.is_alone()) fmt::print(stderr, "{}: {}\n", run.title(), diverged.what());  // the others go on
  }
  result.row = run.row;
  result.trial = run.trial;
  result.seed = run.seed;
  result.configuration = run.configuration;
  result.goal = goal_of(plan.configuration);
  if (run.directory) result.directory = run.directory->path();
  return result;
}

void ExperimentBase::train(const std::vector<PlannedRun>& plans, const std::string& data_description,
                           const SaveData& save_data, const Body& body) {
  directory();
  has_begun_ = true;
  save_start(directory_->path(), cli_.command(), parse_device(cli_.configuration().at("device").get<std::string>()));
  std::vector<RunResult> results;
  double seconds = 0;
  std::int64_t trained = 0;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    Run run = run_of(plans, k);
    std::optional<RunResult> result = load_result(run.directory->path());
    require(!result || result->training || !result->failure.empty(),
            "{}: has the results of a test, and no training that could continue", run.directory->path().string());
    const bool finished = from_first_process([&] { return std::string(is_finished(result, run) ? "yes" : ""); }) == "yes";
    if (!finished) {
      const std::int64_t wanted = run.configuration.at("updates");
      if (result && result->training && result->training->updates > wanted)
        fail("--updates {}: {} has made {} updates already", wanted, run.title(), result->training->updates);
      // The old result describes files that change from here on. A run that is stopped must have no result.
      std::filesystem::remove(run.directory->path() / "result.json");
      if (run.directory != directory_) save_data(run.directory->path());
      if (trained > 0)
        run.seconds_of_others = seconds / static_cast<double>(trained) * static_cast<double>(plans.size() - k - 1);
      const SpentTime before = SpentTime::until_now();
      save_result(result_of(run, plans[k], [&] { return body(k, run); }));
      seconds += (SpentTime::until_now() - before).wall;
      ++trained;
      result = load_result(run.directory->path());
    }
    if (!processes().is_first()) continue;  // the first process makes the report
    result->row = run.row;                  // a run that was resumed on its own has another title
    result->trial = run.trial;
    results.push_back(std::move(*result));
  }
  if (!processes().is_first()) return;
  const std::vector<ComparedRow> trials = grouped(results), rows = without_lost_trials(trials);
  require(!all_failed(rows), "{}", rows.front().runs.front().failure);
  ComparisonReport report{.title = cli_.program(), .subtitle = data_description, .groups = {{"", rows}}};
  if (trials.size() > rows.size()) report.trials = trials;
  fmt::print("\n{}{}", comparison_table(rows).text(), comparison_caption(rows));
  if (trials.size() > rows.size()) fmt::print("\n{}", trials_table(trials).text());
  std::fflush(stdout);
  page_of(report).write(directory_->report());
  const std::filesystem::path best = best_of(rows).best().directory;
  fmt::print("\n");
  if (best != directory_->path() && have_one_dev_score(rows)) fmt::print("best model: {}\n", best.string());
  fmt::print("report: {}\nrun directory: {}\n", directory_->report().string(), directory_->path().string());
}

void ExperimentBase::test(const std::vector<PlannedRun>& plans, bool json, const Body& body) {
  require(flags_.seeds == 1 && flags_.search.empty(), "--seeds and --search are for training; a test has one model");
  const bool keeps = !flags_.directory.out.empty();
  std::vector<RunResult> results;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    Run run{.row = plans[k].row, .seed = plans[k].seed, .configuration = plans[k].configuration};
    if (keeps) run = run_of(plans, k);
    has_begun_ = true;
    results.push_back(result_of(run, plans[k], [&] { return body(k, run); }));
    if (keeps) save_result(results.back());
    if (json) fmt::print("{}\n", text_of(to_json(results.back())));
  }
  if (json) return;
  const std::vector<ComparedRow> rows = grouped(results);
  fmt::print("\n{}{}", comparison_table(rows).text(), comparison_caption(rows));
}

}  // namespace fovea
