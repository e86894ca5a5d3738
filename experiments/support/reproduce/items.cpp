#include "experiments/support/reproduce/items.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

fs::path records_directory() { return FOVEA_RECORDS; }

std::vector<Item> load_items() {
  const fs::path path = fs::path(sheets_directory()) / "items.json";
  const Json json = load_json(path);
  std::vector<Item> items;
  reading_json(path.string(), [&] {
    for (const Json& each : json) {
      Item item{.id = each.at("id"),
                .title = each.at("title"),
                .shows = each.value("shows", ""),
                .sheets = {},
                .commands = {}};
      for (const std::string& sheet : each.value("sheets", std::vector<std::string>()))
        item.sheets.push_back(load_sheet(sheet));
      const Json commands = each.value("commands", Json::array());
      for (const Json& command : commands)
        item.commands.push_back({command.at("run"), command.value("shows", std::vector<std::string>()),
                                 command.value("tiers", std::vector<std::string>()), command.value("keep", false)});
      items.push_back(std::move(item));
    }
  });
  return items;
}

std::vector<ItemCommand> Item::commands_at(const std::string& tier) const {
  std::vector<ItemCommand> chosen;
  for (const ItemCommand& command : commands)
    if (command.tiers.empty() || std::count(command.tiers.begin(), command.tiers.end(), tier) > 0)
      chosen.push_back(command);
  return chosen;
}

std::vector<Item> chosen_items(const std::vector<std::string>& ids) {
  const std::vector<Item> all = load_items();
  std::vector<std::string> known;
  for (const Item& item : all) known.push_back(item.id);
  for (const std::string& id : ids)
    require(std::any_of(known.begin(), known.end(), [&](const std::string& one) { return one.starts_with(id); }),
            "there is no item '{}'{}; `reproduce --list` prints them", id, did_you_mean(id, known));
  std::vector<Item> chosen;
  for (const Item& item : all) {
    const bool is_exact = std::count(ids.begin(), ids.end(), item.id) > 0;
    const bool begins = std::any_of(ids.begin(), ids.end(), [&](const std::string& id) {
      return item.id.starts_with(id) && std::count(known.begin(), known.end(), id) == 0;
    });
    if (ids.empty() || is_exact || begins) chosen.push_back(item);
  }
  return chosen;
}

std::vector<std::string> words_of_command(const std::string& command) {
  std::vector<std::string> words;
  char quote = 0;
  bool is_open = false, in_braces = false;
  for (char c : command) {
    const bool is_quote = !in_braces && (quote ? c == quote : c == '\'' || c == '"');
    const bool ends = c == ' ' && !quote && !in_braces;
    if (c == '{' || c == '}') in_braces = c == '{';
    if (!ends && !is_open) words.emplace_back();
    is_open = !ends;
    if (is_quote)
      quote = quote ? 0 : c;
    else if (!ends)
      words.back() += c;
  }
  return words;
}

}  // namespace fovea
