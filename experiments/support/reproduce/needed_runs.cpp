#include "experiments/support/reproduce/needed_runs.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "experiments/support/record/kept_runs.h"
#include "experiments/support/text/split_mix.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The name is made from everything that decides the run's result.
std::string name_of(const RunJob& job) {
  FlagValues sorted = job.flags;
  std::ranges::sort(sorted);
  const bool is_test = job.kind == RunJob::Kind::test;
  return fmt::format("{}-{:016x}", job.program,
                     stable_hash(fmt::format("{} {} {}", job.needs, !is_test, flags_text(sorted))));
}

}  // namespace

NeededRuns::NeededRuns(std::string tier, Places places)
    : tier_(std::move(tier)), places_(std::move(places)), all_kept_(load_kept_runs(places_.kept)) {
  for (const RunResult& run : all_kept_) kept_[run.name] = &run;
  for (const std::string& name : sheet_names()) {
    const Sheet& sheet = sheets_[name] = load_sheet(name);
    for (const Sheet::Task& task : sheet.tasks)
      for (const Sheet::Row& row : sheet.rows) {
        if (!sheet.is_trained(row, task, tier_)) continue;
        TableRow& one = rows_.emplace_back(TableRow{&sheet, &task, &row});
        for (const std::uint64_t seed : one.recipe(tier_).seeds) {
          RunJob job = job_of(one, seed);
          one.runs.push_back(name_of(job));
          jobs_.try_emplace(one.runs.back(), std::move(job))
              .first->second.made_for.push_back(fovea::name_of(sheet, task, row));
        }
      }
  }
}

RunJob NeededRuns::job_of(const TableRow& of, std::uint64_t seed) const {
  const Recipe::Tier& tier = of.recipe(tier_);
  const std::string& program = of.sheet->recipe(*of.task).program;
  RunJob job{.program = program, .flags = {}, .minutes = tier.minutes, .machine = tier.machine};
  const auto name_of_row = [&](const std::string& row) {
    return name_of(job_of({of.sheet, of.task, &of.sheet->row(row)}, seed));
  };
  if (!of.row->model.empty()) {
    constexpr double part_of_training = 0.2;
    job.kind = RunJob::Kind::test;
    job.minutes *= part_of_training;
    job.needs = name_of_row(of.row->model);
    job.flags = flag_values(of.row->flags, tier.variables);
    std::erase_if(job.flags, [](const auto& flag) { return flag.first == "updates"; });
    return job;
  }
  job.flags = row_flags(*of.sheet, *of.row, *of.task, tier_);
  job.flags.emplace_back("seed", std::to_string(seed));
  if (!of.row->initial.empty()) {
    constexpr double part_of_training = 0.1;
    job.kind = RunJob::Kind::continuation;
    job.minutes *= part_of_training;
    job.needs = name_of_row(of.row->initial);
  }
  return job;
}

const Sheet& NeededRuns::sheet(const std::string& name) const {
  const auto found = sheets_.find(name);
  require(found != sheets_.end(), "there is no sheet '{}'", name);
  return found->second;
}

void NeededRuns::append(std::vector<std::string>& names, const std::string& run) const {
  const std::string& needs = jobs_.at(run).needs;
  if (!needs.empty()) append(names, needs);
  if (std::ranges::count(names, run) == 0) names.push_back(run);
}

void NeededRuns::append_runs(std::vector<std::string>& names, const std::string& sheet) const {
  for (const TableRow& row : rows_)
    if (row.sheet->name == sheet)
      for (const std::string& run : row.runs) append(names, run);
}

std::string NeededRuns::run_of(const std::string& reference) const {
  const std::size_t slash = reference.find('/');
  if (slash == std::string::npos) return "";
  const Sheet& of = sheet(reference.substr(0, slash));
  const Sheet::Row& wanted = of.row(reference.substr(slash + 1));
  for (const TableRow& row : rows_)
    if (row.row == &wanted) return row.runs.front();
  fail("{{{}}}: the row is not trained at the tier '{}'", reference, tier_);
}

std::vector<std::string> NeededRuns::arguments(const std::string& name) const {
  const RunJob& job = jobs_.at(name);
  constexpr std::string_view data = "{data}";
  std::vector<std::string> arguments = arguments_of(job.flags);
  for (std::string& argument : arguments)
    if (const std::size_t at = argument.find(data); at != std::string::npos)
      argument.replace(at, data.size(), places_.data.string());
  if (job.kind == RunJob::Kind::test)
    arguments.insert(arguments.begin(), {"--model=" + directory(job.needs).string(), "--evaluate=test"});
  else
    arguments.emplace_back("--only=1/1");  // begins the run, or continues it
  if (job.kind == RunJob::Kind::continuation) arguments.push_back("--init=" + directory(job.needs).string());
  arguments.insert(arguments.end(), {fmt::format("--made-for={}", fmt::join(job.made_for, "; ")),
                                     "--out=" + directory(name).string(), "--threads=1"});
  return arguments;
}

const RunResult* NeededRuns::result(const std::string& name) {
  if (is_made(name) && !made_.contains(name)) made_[name] = load_result(directory(name)).value();
  if (const auto made = made_.find(name); made != made_.end()) return &made->second;
  const auto kept = kept_.find(name);
  return kept == kept_.end() ? nullptr : kept->second;
}

SeedRuns NeededRuns::finished(const TableRow& row) {
  SeedRuns runs;
  for (const std::string& name : row.runs)
    if (const RunResult* run = result(name); run && run->failure.empty()) {
      runs.push_back(run);
      read_[name] = run;
    }
  return runs;
}

SheetRuns NeededRuns::finished(const Sheet& sheet) {
  const auto training_of = [&](const TableRow& row) { return row.recipe(tier_).flags + " " + row.task->flags; };
  if (alike_.empty()) {
    std::map<std::string, AlikeRuns> alike;
    std::set<std::string> known;
    for (const TableRow& row : rows_) {
      AlikeRuns& trained_alike = alike[training_of(row)];
      const bool is_new = row.row->model.empty() && known.insert(row.runs.front()).second;
      if (SeedRuns seeds = is_new ? finished(row) : SeedRuns(); !seeds.empty())
        trained_alike.rows.push_back(std::move(seeds));
    }
    for (auto& [flags, runs] : alike) alike_[flags] = std::make_shared<AlikeRuns>(std::move(runs));
  }
  SheetRuns runs;
  for (const TableRow& row : rows_) {
    if (row.sheet->name != sheet.name) continue;
    runs.alike[row.task->name] = alike_.at(training_of(row));
    if (SeedRuns of_row = finished(row); !of_row.empty()) runs[{row.row->name, row.task->name}] = std::move(of_row);
  }
  return runs;
}

std::vector<const RunResult*> NeededRuns::read_runs() const {
  std::vector<const RunResult*> runs;
  for (const auto& [name, run] : read_) runs.push_back(run);
  return runs;
}

std::vector<std::string> NeededRuns::shown_scores(const std::string& run) const {
  std::set<std::string> recipes, metrics;
  for (const TableRow& row : rows_)
    if (std::ranges::count(row.runs, run) > 0) recipes.insert(row.recipe(tier_).flags);
  for (const TableRow& row : rows_)
    if (recipes.contains(row.recipe(tier_).flags))
      for (const Sheet::Column& column : row.sheet->columns)
        if (column.task == row.task->name)
          for (const std::string& metric : metrics_of(column.metric)) metrics.insert(metric);
  return {metrics.begin(), metrics.end()};
}

}  // namespace fovea
