/// The items of `reproduce`: every table and figure of the five papers, as data (experiments/sheets/items.json).
#pragma once
#include <string>
#include <vector>

namespace fovea {

/// A command of an item. {SHEET/ROW} stands for the directory of that row's first run, {out} for the item's directory,
/// {data} for that of the public data, and $NAME for a variable of the tier.
struct ItemCommand {
  std::string text;
  std::vector<std::string> shows;  ///< the output must contain each of these texts
  bool is_kept = false;            ///< its output has no text of the data, and is kept with the runs
};

struct Item {
  std::string id, title;
  std::string shows;  ///< what the item must show, for readers
  std::vector<std::string> sheets;
  std::vector<ItemCommand> commands;  ///< those of one tier
};

/// All items, in the order of the papers, with the commands that are run at a tier.
std::vector<Item> load_items(const std::string& tier);
/// The items with these ids or beginnings of ids ("N-T1", "Y"); all without any. Throws Error for an unknown id.
std::vector<Item> chosen_items(const std::vector<Item>& all, const std::vector<std::string>& ids);

/// The words of a command line; quotes and braces keep spaces together.
std::vector<std::string> words_of_command(const std::string& command);

}  // namespace fovea
