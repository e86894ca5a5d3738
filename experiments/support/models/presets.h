/// Presets: a model and its training under one name, from files that anyone can add.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

class Cli;

/// --preset NAME or --preset FILE.json. A preset is a JSON file with the values of flags, as in a configuration, and
/// "about", a line for --help-all. NAME is a file experiments/presets/NAME.json. A program ignores values of flags that
/// it does not have.
struct PresetFlag {
  std::string name;

  void add_to(Cli& cli);
};

/// The names of the files in experiments/presets, sorted.
std::vector<std::string> preset_names();
/// The values of a preset, without "about". Throws Error if there is no such preset or file; the message lists the
/// presets.
Json preset_values(const std::string& name);

}  // namespace fovea
