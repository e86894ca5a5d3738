#include "experiments/support/training/same_data.h"

#include <fmt/core.h>

#include "tensor/error.h"

namespace fovea {

Json DataHash::part(std::size_t examples) const {
  return {{"examples", examples}, {"hash", fmt::format("{:016x}", hash_)}};
}

std::string data_changes(const std::filesystem::path& file, const Json& now) {
  Json before = load_json(file);
  std::string list;
  auto differs = [&](const std::string& what) { list += (list.empty() ? "" : "; ") + what; };
  reading_json(file.string(), [&] {
    for (const auto& [part, of_part] : now.items()) {
      if (!of_part.is_object()) continue;  // the classes
      require(before.contains(part), "{}: has no part '{}'", file.string(), part);
      std::int64_t had = before.at(part).at("examples"), has = of_part.at("examples");
      if (had != has)
        differs(fmt::format("{} had {} examples and has {}", part, had, has));
      else if (before.at(part).at("hash") != of_part.at("hash"))
        differs(fmt::format("{} has different texts or labels", part));
    }
    if (before.value("classes", Json()) != now.value("classes", Json()))
      differs(fmt::format("the classes were {} and are {}", text_of(before.value("classes", Json())),
                          text_of(now.value("classes", Json()))));
  });
  return list;
}

void require_same_data(const std::filesystem::path& file, const Json& now) {
  const std::string list = data_changes(file, now);
  require(list.empty(), "{}: the data have changed since the run began, so that it cannot continue: {}",
          file.parent_path().string(), list);
}

}  // namespace fovea
