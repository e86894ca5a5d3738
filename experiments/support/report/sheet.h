/// Sheets: the papers' tables as data. A sheet says which models a table compares, as flags of our programs, and what
/// the paper reports for them. `report --sheet` lays runs out like the paper, `reproduce` trains the rows.
///
/// A sheet is a file experiments/sheets/NAME.json; README.md in that directory describes its keys.
#pragma once
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/support/metrics/seeded_difference.h"
#include "experiments/support/record/record.h"
#include "experiments/support/report/finding.h"

namespace fovea {

/// Flags by their names without the dashes, in order: {"layers", "2"}. A flag without a value has an empty one.
using FlagValues = std::vector<std::pair<std::string, std::string>>;

/// The text with $NAME replaced by the variable, until none is left. Throws Error for a variable that is not there.
std::string substituted(std::string text, const std::map<std::string, std::string>& variables);
/// Parses flags. If a flag is given twice, the last value counts. $NAME is replaced by the variable.
FlagValues flag_values(const std::string& flags, const std::map<std::string, std::string>& variables);
/// The flags as words of a command line: "--layers=2".
std::vector<std::string> arguments_of(const FlagValues& flags);
/// The flags as one text, quoted for a shell where that is necessary: "--layers 2".
std::string flags_text(const FlagValues& flags);

/// A way to train the models of a sheet, at three sizes: experiments/sheets/recipes.json.
struct Recipe {
  struct Tier {
    std::string flags, data, machine;  ///< `data` and `machine`: for readers
    std::map<std::string, std::string> variables;
    double minutes = 0;  ///< estimate for one training on one core
    std::vector<std::uint64_t> seeds{1};
  };
  std::string program;
  std::map<std::string, Tier> tiers;  ///< "smoke", "mini", "paper"
};

struct Sheet {
  /// A data set of the paper. The models are trained once for each task.
  struct Task {
    std::string name, data, recipe;  ///< `data` as the paper calls them: "WMT14 En-De"
    std::string flags = {};          ///< behind those of the recipe
  };
  struct Column {
    std::string heading, task, metric;  ///< without a metric the column has the paper's numbers alone
    int decimals = 2;
    double factor = 1;  ///< ours are multiplied by it: 100 for ROUGE in percent
    /// By tier: the value that the plain row must reach; otherwise the sheet is marked untrained.
    std::map<std::string, double> trained;
    bool is_printed = true;  ///< whether the paper has this column
  };
  struct Row {
    std::string name, flags;
    std::string model;               ///< the row whose trained model is tested with these flags; empty: trained itself
    std::string initial;             ///< the row whose parameters this row's training begins with (--init)
    std::string part;                ///< the attention that $part stands for in metrics: "attention_2"
    std::vector<double> printed;     ///< the paper's numbers, one per printed column; NaN: not given
    bool is_cited = false;           ///< of another paper; never trained
    std::vector<std::string> tasks;  ///< empty: all
    std::vector<std::string> tiers;  ///< the tiers at which the row is trained; empty: all
  };
  /// A statement about numbers of the table: "BLEU[Enc (AW)] > BLEU[Vaswani]".
  struct Claim {
    std::string text;
    bool is_required = false;  ///< must hold at any size; others are expectations that are only printed
    std::string says = {};     ///< what the paper is known for, in plain words; empty for all other claims
    std::string of = {};       ///< whose claim it is; empty: that of the sheet's paper
  };

  std::string name, title, about, item;
  bool compares_methods = false;  ///< the page of results begins with such sheets, as differences from the first row
  std::vector<Task> tasks;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::vector<Claim> claims;

  const Row& row(const std::string& name) const;
  const Task& task(const std::string& name) const;
  const Recipe& recipe(const Task& task) const;
  /// Whether the row is trained for the task at a tier.
  bool is_trained(const Row& row, const Task& task, const std::string& tier) const;
};

/// The name by which runs belong to a row (--made-for): "nguyen-table-6: Vaswani", of a sheet with several tasks
/// "nguyen-table-1, En-De: Vaswani".
std::string name_of(const Sheet& sheet, const Sheet::Task& task, const Sheet::Row& row);

/// The names of the files in experiments/sheets, sorted.
std::vector<std::string> sheet_names();
/// Reads a sheet by its name or path. Throws Error if there is none, with the names of all, or if it contradicts
/// itself.
Sheet load_sheet(const std::string& name);
std::string sheets_directory();
/// The variables that all recipes, and the commands of items, have at a tier.
const std::map<std::string, std::string>& variables_of(const std::string& tier);

/// The flags of a row at a tier: those of the recipe, overridden by those of the task, of the row whose model is
/// tested, and by the row's own, in this order.
FlagValues row_flags(const Sheet& sheet, const Sheet::Row& row, const Sheet::Task& task, const std::string& tier);

/// Runs that differ in the seed alone.
using SeedRuns = std::vector<const RunResult*>;

/// Rows of any tables that are trained alike, from which the spread between seeds is estimated.
struct AlikeRuns {
  std::vector<SeedRuns> rows;
  mutable std::map<std::pair<std::string, double>, SeedSpread> spreads = {};  ///< by metric and factor, once computed
};

/// The runs of each (row, task) of a sheet.
struct SheetRuns : std::map<std::pair<std::string, std::string>, SeedRuns> {
  using map::map;
  /// By task. If none of these runs has the metric of a column, the spread between seeds in this column is estimated
  /// from the sheet's rows.
  std::map<std::string, std::shared_ptr<const AlikeRuns>> alike = {};
};

/// The runs that were made for the sheet's rows (name_of()), sorted by their seeds. Left out are failed runs, runs that
/// were tested on other examples than the first run of the same task, and runs that differ from a row's first run in
/// more than the seed, unless `reproduce` named them (RunResult::name). Throws Error for a run that was made for a row
/// of this sheet that does not exist.
SheetRuns runs_of(const Sheet& sheet, const std::vector<RunResult>& runs);

/// A number of a run by its name: a score or measurement of the first test set ("BLEU", "window"), "dev BLEU", the mean
/// of several ("mean: ROUGE-1 F1, ROUGE-2 F1"), a score of a third of the test examples ("longest third: BLEU", by the
/// words of their inputs; also shortest and middle), "parameters", "steps/s" (by processor time), "ms/sentence",
/// "source length", "within 2: encoder.last.attention" (the percentage of an attention within a distance, with
/// --spread; the layer is first, middle, which only stacks of three or more layers have, or last). NaN if the run does
/// not have it.
double measured(const RunResult& run, const std::string& metric);

/// The scores that a column's metric is made of: several if it is a mean ("mean: ROUGE-1 F1, ROUGE-2 F1").
std::vector<std::string> metrics_of(const std::string& metric);

/// The sheet as the paper prints it: for each column the paper's numbers beside ours. Rows without any are left out.
Table sheet_table(const Sheet& sheet, const SheetRuns& runs);
/// A row for each method, a column for each number of the sheet: of the first row the number, of the others the
/// difference from it ± half of its 95 % interval; then the number of seeds in parentheses, and † if the trainings had
/// not converged. Rows and columns without runs are left out.
Table difference_table(const Sheet& sheet, const SheetRuns& runs);
/// The lines under the table: the setting of the paper's experiment (model, data, decoding), for each task the data set
/// that our runs were trained on and the paper's, and how to read the seeds and tests.
std::string sheet_caption(const Sheet& sheet, const SheetRuns& runs);

/// The verdict of the runs on a claim. An expectation holds, or does not, if the 95 % interval of the difference is on
/// one side of 0; otherwise it is open. It is open, too, where the trainings of a row had not converged: where in the
/// last fifth of the updates they still gained more, by the score that selects the models, than two seeds differ in it.
/// Numbers without an interval, and claims that must hold at any size, are compared number with number.
enum class Verdict { holds, fails, open, not_measured };

/// A claim with its outcome.
struct CheckedClaim {
  /// One side of it: our mean of a metric over runs, or a constant. NaN, which equals nothing: not measured.
  struct Side {
    std::string metric = {};
    SeedRuns runs = {};
    double value = std::nan(""), in_paper = std::nan("");
    std::string name = {};  ///< "BLEU of 'Yang'"; empty for a constant, as are the other two
    const Sheet::Row* row = nullptr;
    const Sheet::Column* column = nullptr;

    bool is_same(const Side& other) const {
      return metric == other.metric && runs == other.runs && value == other.value;
    }
  };
  Sheet::Claim claim;
  Verdict verdict = Verdict::not_measured;
  std::optional<SeededDifference> difference = {};  ///< left minus right; empty: compared number with number
  std::string why_open = {};                        ///< the reason why it is not judged; empty: it is
  std::string words = {};                           ///< "BLEU of 'Yang' is above that of 'Vaswani'"
  std::string sign = {};                            ///< "<"
  Side left = {}, right = {};
  int decimals = 2;

  /// The difference of the paper's numbers; NaN: it has none.
  double in_paper() const { return left.in_paper - right.in_paper; }
  /// A row of a table of statements: words, the paper's difference, ours, verdict.
  std::vector<Cell> cells() const;
  /// Whether two tables state the same about the same runs.
  bool is_same_comparison(const CheckedClaim& other) const {
    return claim.is_required == other.claim.is_required && sign == other.sign && left.is_same(other.left) &&
           right.is_same(other.right);
  }
  /// "0.79 (0.12 to 1.46)", or without an interval the two numbers: "4.109 and 8.996". Empty if they are not measured.
  std::string ours_text() const;
  /// "holds"; "holds in one training", of numbers without an interval; "open: 1.21 would show", the difference that
  /// four of five such experiments would find.
  std::string verdict_text() const;
};
std::vector<CheckedClaim> check_claims(const Sheet& sheet, const SheetRuns& runs);

/// The table and, for a sheet with claims, a second one with a row for each claim: its words, numbers and verdict.
std::vector<Finding::NamedTable> tables_of(const Sheet& sheet, const SheetRuns& runs);

/// Why the plain (first) row counts as untrained at a tier: "BLEU 17.3 of Vaswani is below 25"; empty if it is trained.
std::string untrained(const Sheet& sheet, const SheetRuns& runs, const std::string& tier);

}  // namespace fovea
