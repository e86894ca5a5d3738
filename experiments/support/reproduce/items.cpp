#include "experiments/support/reproduce/items.h"

#include <algorithm>

#include "experiments/support/report/sheet.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

std::vector<Item> load_items(const std::string& tier) {
  const fs::path path = fs::path(sheets_directory()) / "items.json";
  const Json json = load_json(path);
  using Texts = std::vector<std::string>;
  std::vector<Item> items;
  reading_json(path.string(), [&] {
    for (const Json& each : json) {
      Item& item = items.emplace_back(Item{each.at("id"), each.at("title"), each.value("shows", ""), {}, {}});
      item.sheets = each.value("sheets", Texts());
      for (const Json& command : each.value("commands", std::vector<Json>())) {
        const Texts tiers = command.value("tiers", Texts());
        if (tiers.empty() || std::count(tiers.begin(), tiers.end(), tier) > 0)
          item.commands.push_back({command.at("run"), command.value("shows", Texts()), command.value("keep", false)});
      }
    }
  });
  return items;
}

std::vector<Item> chosen_items(const std::vector<Item>& all, const std::vector<std::string>& ids) {
  if (ids.empty()) return all;
  std::vector<std::string> known;
  for (const Item& item : all) known.push_back(item.id);
  std::vector<bool> is_chosen(all.size());
  for (const std::string& id : ids) {
    const bool is_whole = std::count(known.begin(), known.end(), id) > 0;  // "N-T1" is not "N-T11"
    bool is_found = false;
    for (std::size_t k = 0; k < all.size(); ++k)
      if (is_whole ? known[k] == id : known[k].starts_with(id)) is_chosen[k] = is_found = true;
    require(is_found, "there is no item '{}'{}; `reproduce --list` prints them", id, did_you_mean(id, known));
  }
  std::vector<Item> chosen;
  for (std::size_t k = 0; k < all.size(); ++k)
    if (is_chosen[k]) chosen.push_back(all[k]);
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
