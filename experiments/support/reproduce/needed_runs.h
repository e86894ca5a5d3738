/// The runs of the papers' tables at one tier.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/report/sheet.h"

namespace fovea {

/// One call of a program that leaves a run.
struct RunJob {
  enum class Kind { training, continuation, test };
  Kind kind = Kind::training;
  std::string program;
  FlagValues flags;
  std::string needs = {};  ///< the name of the job whose model is tested or trained on; empty: none
  double minutes = 0;
  std::string machine = {};
  std::vector<std::string> made_for = {};  ///< the rows that it belongs to, by their names
};

/// The runs of all sheets at one tier. Runs with the same flags are one run, whichever rows need them. A run is made in
/// the directory `out`, or was made before and is kept (kept_runs.h), without its model.
class NeededRuns {
 public:
  struct Places {
    std::filesystem::path out = {};   ///< runs are made in out/runs
    std::filesystem::path data = {};  ///< {data} in the flags of recipes
    std::filesystem::path kept = {};  ///< the directory of kept runs, which are not made again
  };
  NeededRuns(std::string tier, Places places);

  /// Appends a run, behind the one that it needs, unless it is there already; or all runs of a sheet, in the order of
  /// its rows.
  void append(std::vector<std::string>& names, const std::string& run) const;
  void append_runs(std::vector<std::string>& names, const std::string& sheet) const;
  /// The first run of a reference SHEET/ROW; empty for other text. Throws Error for a row that is not trained.
  std::string run_of(const std::string& reference) const;

  const std::map<std::string, RunJob>& jobs() const { return jobs_; }
  const std::map<std::string, Sheet>& sheets() const { return sheets_; }
  const Sheet& sheet(const std::string& name) const;
  const std::string& tier() const { return tier_; }
  const Places& places() const { return places_; }

  std::filesystem::path directory(const std::string& name) const { return places_.out / "runs" / name; }
  bool is_made(const std::string& name) const { return std::filesystem::exists(directory(name) / "result.json"); }
  bool is_finished(const std::string& name) const { return kept_.contains(name) || is_made(name); }
  /// The result of a run, from its directory or else from the kept ones; null without either. Stays valid as long as
  /// this object.
  const RunResult* result(const std::string& name);

  /// The arguments with which a program makes a run, or continues it.
  std::vector<std::string> arguments(const std::string& name) const;

  /// The finished runs of a sheet's rows.
  SheetRuns finished(const Sheet& sheet);
  /// The runs that were read for tables.
  std::vector<const RunResult*> read_runs() const;
  /// The names of the scores that columns of tables show for runs that are trained as this one is.
  std::vector<std::string> shown_scores(const std::string& run) const;

 private:
  /// A row of a sheet in one of its tasks: a run for each seed.
  struct TableRow {
    const Sheet* sheet;
    const Sheet::Task* task;
    const Sheet::Row* row;
    std::vector<std::string> runs = {};

    const Recipe::Tier& recipe(const std::string& tier) const { return sheet->recipe(*task).tiers.at(tier); }
  };
  RunJob job_of(const TableRow& row, std::uint64_t seed) const;
  SeedRuns finished(const TableRow& row);

  std::string tier_;
  Places places_;
  std::map<std::string, Sheet> sheets_;
  std::vector<TableRow> rows_;
  std::map<std::string, RunJob> jobs_;
  std::vector<RunResult> all_kept_;
  std::map<std::string, const RunResult*> kept_;
  std::map<std::string, RunResult> made_;
  std::map<std::string, const RunResult*> read_;
  std::map<std::string, std::shared_ptr<const AlikeRuns>> alike_;  ///< by the flags of recipe and task
};

}  // namespace fovea
