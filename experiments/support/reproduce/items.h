/// Making the items of `reproduce`: their runs, their commands, and the report about them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/child_process.h"
#include "experiments/support/report/finding.h"
#include "experiments/support/reproduce/boxes.h"

namespace fovea {

/// A command of an item with all words in their places.
struct Step {
  Call call;
  BoxCommand command;
  bool has_models = true;  ///< false: it reads a model of which there is only a reduced record, and is left out
};

/// A box with the runs, the directory and the commands that it needs at the tier of the runs.
struct Item {
  Box box;
  std::vector<std::string> runs;
  std::filesystem::path directory;
  std::vector<Step> steps;
};

/// The items of these ids (chosen_boxes()). Adds their runs to the needed ones, with `searches` also those of searches
/// for learning rates, as far as they are known.
std::vector<Item> chosen_items(NeededRuns& needed, const std::vector<std::string>& ids, bool searches = false);

/// Whether this very command has run to its end with this version, after all of the item's runs.
bool is_done(const NeededRuns& needed, const Item& item, const Step& step);

/// The words as a line for a shell.
std::string command_line(const std::vector<std::string>& words);

/// Makes the runs that are missing, `jobs` at a time. Throws Interrupted after Ctrl-C.
void make_runs(const NeededRuns& needed, int jobs);
/// Runs the commands of the items that are not done; those of one item one after another, because a later one may read
/// what an earlier one wrote. Throws Interrupted after Ctrl-C.
void run_steps(const NeededRuns& needed, const std::vector<Item>& items, int jobs);

/// The reasons why an item does not count as done, a sentence each; none if it is done.
std::vector<std::string> problems_of(NeededRuns& needed, const Item& item);

/// The report on all items, in their order. `problems`: those of each item.
Finding report_on(NeededRuns& needed, const std::vector<Item>& items,
                  const std::vector<std::vector<std::string>>& problems);

}  // namespace fovea
