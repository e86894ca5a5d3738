#include "experiments/support/models/presets.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/data_directory.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

fs::path presets_folder() { return data_directory("presets"); }

std::string preset_help() {
  std::string text = "a model and its training, in values that other flags override: a .json file, or one of";
  for (const std::string& name : preset_names())
    text += fmt::format("\n{}: {}", name, load_json(presets_folder() / (name + ".json")).value("about", ""));
  return text + "\n";
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(presets_folder(), ignored))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Json preset_values(const std::string& name) {
  const bool is_file = name.ends_with(".json");
  const fs::path path = is_file ? fs::path(name) : presets_folder() / (name + ".json");
  const std::vector<std::string> names = preset_names();
  require(is_file || fs::exists(path), "there is no preset '{}'; there are {}, and any .json file{}", name,
          listed(names, ", "), did_you_mean(name, names));
  Json values = load_json(path);
  require(values.is_object(), "{}: expected an object with the values of flags, found {}", path.string(),
          values.type_name());
  values.erase("about");
  return values;
}

void PresetFlag::add_to(Cli& cli) {
  cli.option("--preset", name, "a model and its training under a name; --help-all lists them")
      .long_help(preset_help)
      .unsaved()
      .configures([&cli](const std::string& wanted) {
        Json known = Json::object();
        const Json all = preset_values(wanted);
        if (wanted.ends_with(".json")) return all;  // a key that is no flag is refused; presets/ is for all programs
        for (const auto& [key, value] : all.items())
          if (cli.declares(key)) known[key] = value;
        return known;
      });
}

}  // namespace fovea
