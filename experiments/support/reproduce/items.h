/// The items of `reproduce`: every table and figure of the five papers, as data (experiments/sheets/items.json). ninja
/// makes their runs and runs their commands; what a command printed and drew is its output.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/program/ninja.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/reproduce/needed_runs.h"

namespace fovea {

/// A command of an item. In its text {SHEET/ROW} stands for the directory of that row's first run, {out} for the item's
/// directory, {data} for that of the public data, and $NAME for a variable of the tier.
struct Step {
  std::string text;
  std::string line;                      ///< for a shell, with everything in its place
  std::vector<std::string> shows;        ///< the output must contain each of these texts
  bool is_kept = false;                  ///< its output has no text of the data, and is kept with the runs
  std::vector<std::string> models = {};  ///< the runs whose models it reads
  /// The file of what it prints, which is there only after the command has succeeded; what it draws lies beside it.
  std::filesystem::path output = {};
  /// Whether its data and trained models are at hand, or will be made. If not, as where a run is kept without its
  /// model, it is left out.
  bool has_inputs = true;
  /// An object with the tier, the command after its variables were replaced, and the names of the runs that it reads. A
  /// kept output is shown only for a command with an equal identity, because any of these changes the output.
  Json identity = {};
};

struct Item {
  std::string id, title;
  std::string shows;  ///< what the item must show, for readers
  std::vector<std::string> sheets;
  std::vector<Step> steps = {};        ///< those of the tier
  std::vector<std::string> runs = {};  ///< those of its sheets and commands, each behind the run that it needs
};

/// The items with these ids or beginnings of ids ("N-T1", "Y"), in the order of the papers, as they are at the tier of
/// the runs; all items without any id. Throws Error for an unknown id.
std::vector<Item> load_items(const NeededRuns& needed, const std::vector<std::string>& ids);

/// The words as a line for a shell.
std::string command_line(const std::vector<std::string>& words);

/// The steps that ninja runs for the items: one for each run that is not kept, and one for each command.
std::vector<NinjaStep> ninja_steps(const NeededRuns& needed, const std::vector<Item>& items);

/// The output of a command.
struct StepOutput {
  std::string command;                         ///< for readers
  std::filesystem::path text;                  ///< the file of what it printed
  std::vector<std::filesystem::path> figures;  ///< the SVG files that it wrote
  std::string origin;                          ///< of a kept one: when, and with which version it was made
};

/// The output of a command that has succeeded, or else the kept output of the same command; nothing if there is
/// neither. Throws Error for a damaged file.
std::optional<StepOutput> output_of(const NeededRuns& needed, const Item& item, const Step& step);

/// Copies the outputs that are kept (Step::is_kept) of all commands that have succeeded into items/ID of a directory:
/// what command 1 printed is 1.txt, and 1.json has Step::identity, and when and with which version it was run. Returns
/// their number.
std::size_t keep_outputs(const NeededRuns& needed, const std::vector<Item>& items,
                         const std::filesystem::path& directory);

/// Adds the outputs and figures of an item's commands. Links to files begin at the directory `from`.
void add_outputs(Finding& section, const NeededRuns& needed, const Item& item, const std::filesystem::path& from);

}  // namespace fovea
