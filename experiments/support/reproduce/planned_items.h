/// Making the items of `reproduce`: their runs, their commands, and the report about them.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/child_process.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/reproduce/needed_runs.h"

namespace fovea {

/// A command of an item with all words in their places.
struct Step {
  Call call;
  ItemCommand command;
  /// Whether its data and trained models are at hand. If not, as where a run has only a reduced record, it is left out.
  bool has_inputs = true;
  /// An object with the tier, the command after its variables were replaced, and the names of the runs that it reads. A
  /// kept output is shown only for a command with an equal identity, because any of these changes the output.
  Json identity = {};
};

/// An item with the runs, the directory and the commands that it needs at the tier of the runs.
struct PlannedItem : Item {
  std::vector<std::string> runs;
  std::filesystem::path directory;
  std::vector<Step> steps;
};

/// The items of these ids (chosen_items()). Adds their runs to the needed ones, with `searches` also those of searches
/// for learning rates, as far as they are known.
std::vector<PlannedItem> planned_items(NeededRuns& needed, const std::vector<std::string>& ids, bool searches = false);

/// Whether this very command has run to its end with this version, after all of the item's runs.
bool is_done(const NeededRuns& needed, const PlannedItem& item, const Step& step);

/// The words as a line for a shell.
std::string command_line(const std::vector<std::string>& words);

/// Makes the runs that are missing, `jobs` at a time. Throws Interrupted after Ctrl-C.
void make_runs(const NeededRuns& needed, int jobs);
/// Runs the commands of the items that are not done; those of one item one after another, because a later one may read
/// what an earlier one wrote. Throws Interrupted after Ctrl-C.
void run_steps(const NeededRuns& needed, const std::vector<PlannedItem>& items, int jobs);

/// The output of a command: the text that it printed, and the SVG files that it wrote.
struct StepOutput {
  std::string command;                         ///< for readers
  std::filesystem::path text;                  ///< the file of what it printed
  std::vector<std::filesystem::path> figures;  ///< the SVG files that it wrote
  std::string origin;                          ///< when, with which version and where it was made
  bool is_kept = false;                        ///< it is among the records, and was not made in this directory
};

/// The output of a command that is done, or of one that has not been run in this directory the same command's output
/// among the records; nothing if there is neither. Throws Error for a damaged file.
std::optional<StepOutput> output_of(const NeededRuns& needed, const PlannedItem& item, const Step& step);

/// Copies the outputs that are kept (ItemCommand::is_kept) of all commands that are done into items/ID of the directory
/// of records: what command 1 printed is 1.txt, and 1.json has Step::identity, and when and with which version it was
/// run.
/// Returns their number.
std::size_t keep_outputs(const NeededRuns& needed, const std::vector<PlannedItem>& items,
                         const std::filesystem::path& records);

/// Adds the outputs and figures of an item's commands. Links to files begin at the directory `from`.
void add_outputs(Finding& section, const NeededRuns& needed, const PlannedItem& item,
                 const std::filesystem::path& from);

/// The reasons why an item does not count as done, a sentence each; none if it is done.
std::vector<std::string> problems_of(NeededRuns& needed, const PlannedItem& item);

/// The report on all items, in their order. `problems`: those of each item.
Finding report_on(NeededRuns& needed, const std::vector<PlannedItem>& items,
                  const std::vector<std::vector<std::string>>& problems);

}  // namespace fovea
