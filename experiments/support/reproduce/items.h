/// The items of `reproduce`: every table and figure of the five papers, as data (experiments/sheets/items.json).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/report/sheet.h"

namespace fovea {

/// A command of an item. {SHEET/ROW} stands for the directory of that row's first run, {out} for the item's directory,
/// {data} for that of the public data, and $NAME for a variable of the tier.
struct ItemCommand {
  std::string text;
  std::vector<std::string> shows;  ///< the output must contain each of these texts
  std::vector<std::string> tiers;  ///< the tiers at which the command is run; empty: all
  bool is_kept = false;            ///< its output has no text of the data, and is kept with reduced records
};

struct Item {
  std::string id, title;
  std::string shows;  ///< what the item must show, for readers
  std::vector<Sheet> sheets;
  std::vector<ItemCommand> commands;

  /// The commands that are run at a tier.
  std::vector<ItemCommand> commands_at(const std::string& tier) const;
};

/// The directory of the reduced records that belong to the project: experiments/records.
std::filesystem::path records_directory();

/// All items, in the order of the papers.
std::vector<Item> load_items();
/// The items with these ids or beginnings of ids ("N-T1", "Y"); all without any. Throws Error for an unknown id.
std::vector<Item> chosen_items(const std::vector<std::string>& ids);

/// The words of a command line; quotes and braces keep spaces together.
std::vector<std::string> words_of_command(const std::string& command);

}  // namespace fovea
