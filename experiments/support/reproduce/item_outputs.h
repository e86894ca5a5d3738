/// Making the items of `reproduce`: ninja makes their runs and runs their commands; what a command printed and drew is
/// its output.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/ninja.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/reproduce/needed_runs.h"

namespace fovea {

/// A command of an item with all words in their places. What it prints is in the file `output`, which is there only
/// after the command has succeeded; what it draws lies beside it.
struct Step {
  ItemCommand command;
  std::vector<std::string> words;
  std::filesystem::path output;
  /// Whether its data and trained models are at hand, or will be made. If not, as where a run is kept without its
  /// model, it is left out.
  bool has_inputs = true;
  /// An object with the tier, the command after its variables were replaced, and the names of the runs that it reads. A
  /// kept output is shown only for a command with an equal identity, because any of these changes the output.
  Json identity = {};
};

/// An item with the runs and the commands that it needs at the tier of the runs.
struct PlannedItem : Item {
  std::vector<std::string> runs;
  std::vector<Step> steps;
};

/// Plans the items of these ids (chosen_items()).
std::vector<PlannedItem> planned_items(const NeededRuns& needed, const std::vector<std::string>& ids);

/// The words as a line for a shell.
std::string command_line(const std::vector<std::string>& words);

/// The steps that ninja runs for the items: one for each run that is not kept, and one for each command.
std::vector<NinjaStep> ninja_steps(const NeededRuns& needed, const std::vector<PlannedItem>& items);

/// The output of a command.
struct StepOutput {
  std::string command;                         ///< for readers
  std::filesystem::path text;                  ///< the file of what it printed
  std::vector<std::filesystem::path> figures;  ///< the SVG files that it wrote
  std::string origin;                          ///< of a kept one: when, and with which version it was made
};

/// The output of a command that has succeeded, or else the kept output of the same command; nothing if there is
/// neither. Throws Error for a damaged file.
std::optional<StepOutput> output_of(const NeededRuns& needed, const PlannedItem& item, const Step& step);

/// Copies the outputs that are kept (ItemCommand::is_kept) of all commands that have succeeded into items/ID of a
/// directory: what command 1 printed is 1.txt, and 1.json has Step::identity, and when and with which version it was
/// run. Returns their number.
std::size_t keep_outputs(const NeededRuns& needed, const std::vector<PlannedItem>& items,
                         const std::filesystem::path& directory);

/// Adds the outputs and figures of an item's commands. Links to files begin at the directory `from`.
void add_outputs(Finding& section, const NeededRuns& needed, const PlannedItem& item,
                 const std::filesystem::path& from);

/// The text of a file; empty without one.
std::string text_of_file(const std::filesystem::path& path);

}  // namespace fovea
