/// The runs that items of `reproduce` need.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/report/sheet.h"
#include "experiments/support/reproduce/items.h"

namespace fovea {

/// One call of a program that leaves a run.
struct RunJob {
  enum class Kind { training, continuation, test };
  Kind kind = Kind::training;
  std::string program;
  FlagValues flags;
  std::string label;  ///< for readers: "nguyen-table-1, Vaswani"
  std::string needs;  ///< the name of the job whose model is tested or trained on; empty: none
  double minutes = 0;
  std::string machine;
  bool is_trial = false;  ///< a short training of the search for a learning rate
};

/// Where the learning rates of a sheet's rows come from: the flags of its recipe, or for each row from a search. The
/// search trains the row with the rate of the recipe and with those of Recipe::Tier::search_rates, for fewer updates
/// and with one seed; the rate with the best score on the development set is chosen, and the row is trained with it as
/// long and with as many seeds as before. Rows that test or continue another row's model follow that row.
enum class Rates { given, searched };

/// The runs that items need at one tier. Runs with the same flags are one run, whichever items need them.
class NeededRuns {
 public:
  struct Places {
    std::filesystem::path out = {};      ///< runs are made in out/runs
    std::filesystem::path data = {};     ///< {data} in the flags of recipes
    std::filesystem::path records = {};  ///< reduced records of finished runs, which are not made again
  };
  NeededRuns(std::string tier, Places places) : tier_(std::move(tier)), places_(std::move(places)) {}

  /// Adds the runs of an item, and returns their names in the order of its rows, each behind the run that it needs. A
  /// row of a task whose recipe has no such tier has none.
  std::vector<std::string> add(const Item& item);
  /// Adds the trials of the search for learning rates, and returns their names; of rows whose trials are all finished
  /// also the runs with the chosen rates.
  std::vector<std::string> add_search(const Item& item);
  /// The most runs, and their minutes, that will be needed once the trials that add_search() has added are finished.
  std::pair<std::int64_t, double> most_after_search() const;

  const std::map<std::string, RunJob>& jobs() const { return jobs_; }
  const std::string& tier() const { return tier_; }
  const Places& places() const { return places_; }
  /// The directory in which a run is made.
  std::filesystem::path directory(const std::string& name) const { return places_.out / "runs" / name; }
  /// The directory of a finished run or, if there is none, of its reduced record.
  std::filesystem::path record(const std::string& name) const {
    return std::filesystem::exists(directory(name) / "result.json") ? directory(name) : places_.records / name;
  }
  bool is_finished(const std::string& name) const { return std::filesystem::exists(record(name) / "result.json"); }
  /// Whether the trained model of a run is there, which a reduced record does not have.
  bool has_model(const std::string& name) const {
    return std::filesystem::exists(directory(name) / "result.json") &&
           std::filesystem::exists(directory(name) / "best.safetensors");
  }
  /// The runs whose models a command of an item reads.
  std::vector<std::string> models_of(const ItemCommand& command);

  /// The message of a finished run that failed, as one does whose loss is not a number; empty: it did not.
  std::string failure(const std::string& name) const {
    return load_json(record(name) / "result.json").value("failure", "");
  }
  /// Whether a run that is not finished reads files from the directory of data.
  bool needs_data() const;

  /// The arguments with which the program makes, or continues, a run.
  std::vector<std::string> arguments(const std::string& name) const;

  /// The command with its placeholders replaced, split into program and arguments.
  std::vector<std::string> arguments(const ItemCommand& command, const std::filesystem::path& item_directory);

  /// The finished runs of a sheet's rows. They stay valid as long as this object. Runs that are trained alike
  /// (SheetRuns::alike) are looked for once: those that end later are not among them.
  SheetRuns finished(const Sheet& sheet, Rates rates = Rates::given);

  /// The result of the search for the learning rate of one row.
  struct Search {
    std::vector<std::pair<std::string, double>> scores;  ///< by rate, "" for that of the recipe; NaN: it failed
    std::string score;                                   ///< the name of the score on the development set
    std::string chosen;  ///< "" for the rate of the recipe, which is kept too if all trials failed
  };
  /// Whether all rows of a sheet are searched, and trained with the chosen rates; a training may have failed.
  bool is_searched(const Sheet& sheet);
  /// Empty unless all trials of the row are finished.
  std::optional<Search> search(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task);
  /// How many rows of a sheet, counted once for each task, have all their runs, and how many there are.
  std::pair<std::size_t, std::size_t> complete_rows(const Sheet& sheet);
  /// The runs that finished() has read so far, for their sheets or as trained alike.
  std::vector<const RunResult*> read_runs() const;

 private:
  static std::string name_of(const RunJob& job);
  RunJob job_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, std::uint64_t seed, Rates rates);
  RunJob trial_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, const std::string& rate) const;
  /// Adds a job, and its name unless it is there.
  void append(std::vector<std::string>& names, RunJob job);
  /// The same for a row's run, behind the one that it needs.
  void append(std::vector<std::string>& names, const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task,
              std::uint64_t seed, Rates rates);
  /// The finished run of this name, or nothing.
  const RunResult* result(const std::string& name);
  SeedRuns finished(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, Rates rates);
  /// The finished runs that any sheet trains with these flags of a recipe, with given learning rates.
  std::shared_ptr<const AlikeRuns> alike(const std::string& flags);
  /// The learning rates that are tried for a row, "" first; none for a row that is not searched.
  std::vector<std::string> rates_of(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task) const;
  /// Whether the row is trained for the task at this tier.
  bool is_trained(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task) const;
  struct FirstRun {
    Sheet sheet;
    std::string row;
    std::uint64_t seed = 0;
    std::string name = {};
  };
  /// The run of a reference SHEET/ROW with the first task and seed; empty for other text.
  std::optional<FirstRun> first_run(const std::string& reference);

  std::string tier_;
  Places places_;
  std::map<std::string, RunJob> jobs_;
  std::map<std::string, RunResult> results_;
  std::map<std::string, std::shared_ptr<const AlikeRuns>> alike_;     ///< by the flags of a recipe
  std::map<std::string, std::pair<std::size_t, double>> unsearched_;  ///< by trial and row: seeds, minutes of one
};

}  // namespace fovea
