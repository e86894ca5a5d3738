#include "experiments/support/reproduce/needed_runs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The texts in braces.
std::vector<std::string> references_of(const std::string& text) {
  std::vector<std::string> references;
  for (std::size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const std::size_t close = text.find('}', open);
    if (close != std::string::npos) references.push_back(text.substr(open + 1, close - open - 1));
  }
  return references;
}

}  // namespace

bool NeededRuns::is_trained(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task) const {
  auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::count(names.begin(), names.end(), name) > 0;
  };
  return !row.is_cited && has(row.tasks, task.name) && has(row.tiers, tier_) &&
         sheet.recipe(task).tiers.contains(tier_);
}

namespace {

/// "nguyen-table-1, En-De, Vaswani"
std::string label_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task) {
  return fmt::format("{}, {}{}", sheet.name, sheet.tasks.size() > 1 ? task.name + ", " : "", row.name);
}

/// The row whose training decides the parameters of this row's model.
const Sheet::Row& trained_row(const Sheet& sheet, const Sheet::Row& row) {
  const std::string& of = row.model.empty() ? row.initial : row.model;
  return of.empty() ? row : trained_row(sheet, sheet.row(of));
}

}  // namespace

/// The name is made from everything that decides the run's result.
std::string NeededRuns::name_of(const RunJob& job) {
  FlagValues sorted = job.flags;
  std::sort(sorted.begin(), sorted.end());
  const bool is_test = job.kind == RunJob::Kind::test;
  const std::string identity = fmt::format("{} {} {}", job.needs, !is_test, flags_text(sorted));
  return fmt::format("{}-{:016x}", job.program, stable_hash(identity));
}

RunJob NeededRuns::job_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, std::uint64_t seed,
                          Rates rates) {
  const Recipe& recipe = sheet.recipe(task);
  const Recipe::Tier& tier = recipe.tiers.at(tier_);
  RunJob job{.program = recipe.program,
             .flags = {},
             .label = label_of(sheet, row, task),
             .needs = "",
             .minutes = tier.minutes,
             .machine = tier.machine};
  if (!row.model.empty()) {
    constexpr double part_of_training = 0.2;
    job.kind = RunJob::Kind::test;
    job.minutes *= part_of_training;
    job.needs = name_of(job_of(sheet, sheet.row(row.model), task, seed, rates));
    job.flags = flag_values(row.flags, tier.variables);
    std::erase_if(job.flags, [](const auto& flag) { return flag.first == "updates"; });
    return job;
  }
  job.flags = row_flags(sheet, row, task, tier_);
  job.flags.emplace_back("seed", std::to_string(seed));
  if (!row.initial.empty()) {
    constexpr double part_of_training = 0.1;
    job.kind = RunJob::Kind::continuation;
    job.minutes *= part_of_training;
    job.needs = name_of(job_of(sheet, sheet.row(row.initial), task, seed, rates));
  } else if (rates == Rates::searched) {
    const std::string rate = search(sheet, row, task).value().chosen;
    if (!rate.empty()) job.flags.emplace_back("rate", rate);
  }
  return job;
}

std::vector<std::string> NeededRuns::rates_of(const Sheet& sheet, const Sheet::Row& row,
                                              const Sheet::Task& task) const {
  if (!is_trained(sheet, row, task)) return {};
  std::vector<std::string> rates = sheet.recipe(task).tiers.at(tier_).search_rates;
  if (!rates.empty()) rates.insert(rates.begin(), "");
  return rates;
}

RunJob NeededRuns::trial_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task,
                            const std::string& rate) const {
  const Recipe::Tier& tier = sheet.recipe(task).tiers.at(tier_);
  constexpr double part_of_training = 0.35;
  RunJob job{.program = sheet.recipe(task).program,
             .flags = {},
             .label = fmt::format("{}, trial with {}", label_of(sheet, row, task),
                                  rate.empty() ? "the recipe's rate" : "rate " + rate),
             .needs = "",
             .minutes = tier.minutes * part_of_training,
             .machine = tier.machine,
             .is_trial = true};
  job.flags = flag_values(flags_text(row_flags(sheet, row, task, tier_)) + " " + tier.search_flags, tier.variables);
  job.flags.emplace_back("seed", std::to_string(tier.seeds.front()));
  if (!rate.empty()) job.flags.emplace_back("rate", rate);
  return job;
}

std::optional<NeededRuns::Search> NeededRuns::search(const Sheet& sheet, const Sheet::Row& row,
                                                     const Sheet::Task& task) {
  Search search;
  double best = std::nan("");
  for (const std::string& rate : rates_of(sheet, row, task)) {
    const RunResult* run = result(name_of(trial_of(sheet, row, task, rate)));
    if (!run) return {};
    const double score = run->training && run->failure.empty() ? run->training->best_score : std::nan("");
    if (run->training) search.score = run->training->score_name;
    search.scores.emplace_back(rate, score);
    if (std::isnan(score)) continue;
    if (!std::isnan(best) && (run->training->higher_is_better ? score <= best : score >= best)) continue;
    best = score;
    search.chosen = rate;
  }
  if (search.scores.empty()) return {};
  return search;
}

void NeededRuns::append(std::vector<std::string>& names, const Sheet& sheet, const Sheet::Row& row,
                        const Sheet::Task& task, std::uint64_t seed, Rates rates) {
  if (const std::string& needed = row.model.empty() ? row.initial : row.model; !needed.empty())
    append(names, sheet, sheet.row(needed), task, seed, rates);
  append(names, job_of(sheet, row, task, seed, rates));
}

void NeededRuns::append(std::vector<std::string>& names, RunJob job) {
  const std::string name = name_of(job);
  jobs_.try_emplace(name, std::move(job));
  if (std::count(names.begin(), names.end(), name) == 0) names.push_back(name);
}

std::vector<std::string> NeededRuns::add(const Item& item) {
  std::vector<std::string> names;
  for (const Sheet& sheet : item.sheets)
    for (const Sheet::Task& task : sheet.tasks)
      for (const Sheet::Row& row : sheet.rows)
        if (is_trained(sheet, row, task))
          for (std::uint64_t seed : sheet.recipe(task).tiers.at(tier_).seeds)
            append(names, sheet, row, task, seed, Rates::given);
  for (const ItemCommand& command : item.commands_at(tier_))
    for (const std::string& reference : references_of(command.text))
      if (const std::optional<FirstRun> run = first_run(reference))
        append(names, run->sheet, run->sheet.row(run->row), run->sheet.tasks.front(), run->seed, Rates::given);
  return names;
}

std::vector<std::string> NeededRuns::add_search(const Item& item) {
  std::vector<std::string> names;
  for (const Sheet& sheet : item.sheets)
    for (const Sheet::Task& task : sheet.tasks)
      for (const Sheet::Row& row : sheet.rows) {
        if (!is_trained(sheet, row, task)) continue;
        const Sheet::Row& trained = trained_row(sheet, row);
        for (const std::string& rate : rates_of(sheet, trained, task))
          append(names, trial_of(sheet, trained, task, rate));
        const Recipe::Tier& tier = sheet.recipe(task).tiers.at(tier_);
        if (search(sheet, trained, task))
          for (std::uint64_t seed : tier.seeds) append(names, sheet, row, task, seed, Rates::searched);
        else if (!tier.search_rates.empty())
          unsearched_[name_of(trial_of(sheet, trained, task, "")) + row.name] = {tier.seeds.size(), tier.minutes};
      }
  return names;
}

std::pair<std::int64_t, double> NeededRuns::most_after_search() const {
  std::pair<std::int64_t, double> most;
  for (const auto& [row, cost] : unsearched_)
    most.first += static_cast<std::int64_t>(cost.first), most.second += static_cast<double>(cost.first) * cost.second;
  return most;
}

bool NeededRuns::is_searched(const Sheet& sheet) {
  for (const Sheet::Task& task : sheet.tasks)
    for (const Sheet::Row& row : sheet.rows) {
      if (!is_trained(sheet, row, task)) continue;
      if (!search(sheet, trained_row(sheet, row), task)) return false;
      for (std::uint64_t seed : sheet.recipe(task).tiers.at(tier_).seeds)
        if (!is_finished(name_of(job_of(sheet, row, task, seed, Rates::searched)))) return false;
    }
  return true;
}

std::vector<std::string> NeededRuns::models_of(const ItemCommand& command) {
  std::vector<std::string> names;
  for (const std::string& reference : references_of(command.text))
    if (const std::optional<FirstRun> run = first_run(reference)) names.push_back(run->name);
  return names;
}

std::optional<NeededRuns::FirstRun> NeededRuns::first_run(const std::string& reference) {
  const std::size_t slash = reference.find('/');
  if (slash == std::string::npos) return {};
  FirstRun run{.sheet = load_sheet(reference.substr(0, slash)), .row = reference.substr(slash + 1)};
  const Sheet::Task& task = run.sheet.tasks.front();
  run.seed = run.sheet.recipe(task).tiers.at(tier_).seeds.front();
  run.name = name_of(job_of(run.sheet, run.sheet.row(run.row), task, run.seed, Rates::given));
  return run;
}

namespace {

constexpr std::string_view data_placeholder = "{data}";

}  // namespace

bool NeededRuns::needs_data() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const auto& [name, job] = entry;
    return !is_finished(name) && std::any_of(job.flags.begin(), job.flags.end(), [](const auto& flag) {
      return flag.second.find(data_placeholder) != std::string::npos;
    });
  });
}

std::vector<std::string> NeededRuns::arguments(const std::string& name) const {
  const RunJob& job = jobs_.at(name);
  const fs::path here = directory(name);
  if (job.kind != RunJob::Kind::test && fs::exists(here / "config.json"))
    return {"--resume=" + here.string(), "--threads=1"};
  std::vector<std::string> arguments = arguments_of(job.flags);
  if (job.kind == RunJob::Kind::test)
    arguments.insert(arguments.begin(), {"--model=" + directory(job.needs).string(), "--evaluate=test"});
  if (job.kind == RunJob::Kind::continuation) arguments.push_back("--init=" + directory(job.needs).string());
  for (std::string& argument : arguments)
    if (const std::size_t at = argument.find(data_placeholder); at != std::string::npos)
      argument.replace(at, data_placeholder.size(), places_.data.string());
  arguments.push_back("--out=" + here.string());
  arguments.emplace_back("--threads=1");
  return arguments;
}

std::vector<std::string> NeededRuns::arguments(const ItemCommand& command, const fs::path& item_directory) {
  std::vector<std::string> words = words_of_command(substituted(command.text, variables_of(tier_)));
  for (std::string& word : words)
    for (const std::string& reference : references_of(word)) {
      const std::optional<FirstRun> run = first_run(reference);
      const fs::path path = run                   ? directory(run->name)
                            : reference == "out"  ? item_directory
                            : reference == "data" ? places_.data
                                                  : fs::path();
      if (path.empty()) continue;  // braces of the program's own
      const std::string placeholder = "{" + reference + "}";
      word.replace(word.find(placeholder), placeholder.size(), path.string());
    }
  return words;
}

const RunResult* NeededRuns::result(const std::string& name) {
  if (!results_.contains(name))
    if (std::optional<RunResult> result = load_result(record(name))) results_[name] = std::move(*result);
  const auto found = results_.find(name);
  return found == results_.end() ? nullptr : &found->second;
}

SeedRuns NeededRuns::finished(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, Rates rates) {
  SeedRuns runs;
  for (std::uint64_t seed : sheet.recipe(task).tiers.at(tier_).seeds)
    if (const RunResult* run = result(name_of(job_of(sheet, row, task, seed, rates))); run && run->failure.empty())
      runs.push_back(run);
  return runs;
}

SheetRuns NeededRuns::finished(const Sheet& sheet, Rates rates) {
  SheetRuns runs;
  for (const Sheet::Task& task : sheet.tasks) {
    if (!sheet.recipe(task).tiers.contains(tier_)) continue;
    for (const Sheet::Row& row : sheet.rows) {
      if (!is_trained(sheet, row, task)) continue;
      if (rates == Rates::searched && !search(sheet, trained_row(sheet, row), task)) continue;
      if (SeedRuns of_row = finished(sheet, row, task, rates); !of_row.empty())
        runs[{row.name, task.name}] = std::move(of_row);
    }
    runs.alike[task.name] = alike(sheet.recipe(task).tiers.at(tier_).flags);
  }
  return runs;
}

std::shared_ptr<const AlikeRuns> NeededRuns::alike(const std::string& flags) {
  if (const auto found = alike_.find(flags); found != alike_.end()) return found->second;
  const auto all = std::make_shared<AlikeRuns>();
  std::set<const RunResult*> known;
  for (const std::string& name : sheet_names()) {
    const Sheet sheet = load_sheet(name);
    for (const Sheet::Task& task : sheet.tasks)
      for (const Sheet::Row& row : sheet.rows) {
        if (!is_trained(sheet, row, task) || !row.model.empty()) continue;
        if (sheet.recipe(task).tiers.at(tier_).flags != flags) continue;
        SeedRuns runs = finished(sheet, row, task, Rates::given);
        if (!runs.empty() && known.insert(runs.front()).second) all->rows.push_back(std::move(runs));
      }
  }
  return alike_[flags] = all;
}

std::pair<std::size_t, std::size_t> NeededRuns::complete_rows(const Sheet& sheet) {
  std::size_t complete = 0, rows = 0;
  const SheetRuns runs = finished(sheet);
  for (const Sheet::Task& task : sheet.tasks)
    for (const Sheet::Row& row : sheet.rows) {
      if (!is_trained(sheet, row, task)) continue;
      ++rows;
      const auto found = runs.find({row.name, task.name});
      const std::size_t wanted = sheet.recipe(task).tiers.at(tier_).seeds.size();
      complete += found != runs.end() && found->second.size() == wanted;
    }
  return {complete, rows};
}

std::vector<const RunResult*> NeededRuns::read_runs() const {
  std::vector<const RunResult*> runs;
  for (const auto& [name, result] : results_) runs.push_back(&result);
  return runs;
}

}  // namespace fovea
