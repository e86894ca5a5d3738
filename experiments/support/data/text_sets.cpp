#include "experiments/support/data/text_sets.h"

#include <algorithm>

#include "experiments/support/data/classification.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr std::pair<std::string_view, Part> part_words[] = {{"train", Part::train}, {"validation", Part::dev},
                                                            {"valid", Part::dev},   {"val", Part::dev},
                                                            {"dev", Part::dev},     {"test", Part::test}};

std::string without_endings(std::string file) {
  for (const std::string_view ending : {".gz", ".txt"}) {
    if (file.ends_with(ending) && file.size() > ending.size()) file.erase(file.size() - ending.size());
  }
  return file;
}

/// `train.lc.en.txt.gz`, `en`: `train.lc`; nothing if the file is of another language.
std::optional<std::string> set_of(const std::string& file, const std::string& language) {
  std::string set = without_endings(file);
  if (language.empty()) return set;
  const std::string ending = "." + language;
  if (!set.ends_with(ending) || set.size() == ending.size()) return {};
  return set.substr(0, set.size() - ending.size());
}

/// The set's name of a file whose name has the language first, or behind '-' or '_' instead of '.': "train" for
/// OpenNMT's `src-train.txt` and for `train_src`. Empty unless the name also has the word for a part, such as "train".
std::optional<std::string> set_beside(const std::string& file, const std::string& language) {
  std::string set = without_endings(file);
  for (const std::string_view sign : {"-", "_", "."}) {
    const std::string begin = language + std::string(sign), end = std::string(sign) + language;
    if (set.starts_with(begin))
      set.erase(0, begin.size());
    else if (set.ends_with(end))
      set.erase(set.size() - end.size());
    else
      continue;
    return part_named(set) ? std::optional(set) : std::nullopt;
  }
  return {};
}

/// The set that is asked for: `test_2016` may also be the beginning of one name, `test_2016.lc`.
std::string asked_set(const TextSets& sets, const std::string& asked) {
  for (const std::string& name : {asked, without_endings(asked)}) {
    if (sets.contains(name)) return name;
  }
  std::vector<std::string> fitting;
  for (const auto& [set, path] : sets) {
    if (set.starts_with(asked + ".")) fitting.push_back(set);
  }
  return fitting.size() == 1 ? fitting[0] : "";
}

/// Returns the names in `sets` that belong to the training set `train`.
std::vector<std::string> belonging(const std::vector<std::string>& sets, const std::string& train,
                                   bool train_is_asked) {
  const auto shape = part_named(train);
  if (!shape) return sets;
  std::vector<std::string> same, similar;
  for (const std::string& set : sets) {
    const auto other = part_named(set);
    if (other->before != shape->before) continue;
    similar.push_back(set);
    if (other->after == shape->after) same.push_back(set);
  }
  if (!same.empty()) return same;
  return similar.empty() && !train_is_asked ? sets : similar;
}

std::string names_of(const TextSets& sets) {
  std::vector<std::string> names;
  for (const auto& [set, path] : sets) names.push_back(set);
  return listed(names, ", ");
}

}  // namespace

const char* name_of(Part part) {
  constexpr const char* names[] = {"train", "dev", "test"};
  return names[static_cast<std::size_t>(part)];
}

std::optional<PartName> part_named(const std::string& name) {
  for (std::size_t begin = 0, end = 0; begin <= name.size(); begin = end + 1) {
    end = std::min(name.find_first_of("._-", begin), name.size());
    const std::string word = lower_case(name.substr(begin, end - begin));
    for (const auto& [spelling, part] : part_words) {
      const bool goes_on =
          word.size() > spelling.size() && word[spelling.size()] >= 'a' && word[spelling.size()] <= 'z';
      if (!word.starts_with(spelling) || goes_on) continue;
      return PartName{part, name.substr(0, begin), name.substr(begin + spelling.size())};
    }
  }
  return {};
}

std::string set_name(const fs::path& file) { return without_endings(file.filename().string()); }

namespace {

template <class SetOf>
TextSets named_sets(const fs::path& directory, const std::string& language, const SetOf& set_of) {
  TextSets sets;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string file = entry.path().filename().string();
    if (!entry.is_regular_file() || file.starts_with('.') || file.ends_with('~')) continue;
    const auto set = set_of(file, language);
    if (!set) continue;
    const auto [other, is_new] = sets.emplace(*set, entry.path());
    require(is_new || (language.empty() && !part_named(*set)), "{}: both {} and {} are {}{}", directory.string(),
            other->second.filename().string(), file, *set, language.empty() ? "" : "." + language);
  }
  return sets;
}

}  // namespace

TextSets sets_of(const fs::path& directory, const std::string& language) {
  TextSets sets = named_sets(directory, language, set_of);
  return sets.empty() && !language.empty() ? named_sets(directory, language, set_beside) : sets;
}

ChosenSets choose_sets(const TextSets& sets, const std::array<std::string, 3>& asked, const fs::path& directory) {
  ChosenSets chosen;
  for (std::size_t k = 0; k < 3; ++k) {
    if (asked[k].empty()) continue;
    chosen.names[k] = asked_set(sets, asked[k]);
    require(!chosen.names[k].empty(), "--{}-set {}: {} has no such set; it has {}", name_of(Part(k)), asked[k],
            directory.string(), sets.empty() ? contents_of(directory) : names_of(sets));
  }
  const auto is_chosen = [&](const std::string& set) {
    return std::find(chosen.names.begin(), chosen.names.end(), set) != chosen.names.end();
  };
  for (std::size_t k = 0; k < 3; ++k) {
    if (!asked[k].empty()) continue;
    std::vector<std::string> fitting;
    for (const auto& [set, path] : sets) {
      const auto name = part_named(set);
      if (name && name->part == Part(k) && set != chosen.names[0]) fitting.push_back(set);
    }
    if (k > 0) fitting = belonging(fitting, chosen.names[0], !asked[0].empty());
    require(fitting.size() <= 1, "{}: several {} sets: choose one with --{}-set: {}", directory.string(),
            name_of(Part(k)), name_of(Part(k)), listed(fitting));
    if (!fitting.empty()) chosen.names[k] = fitting[0];
  }
  for (const auto& [set, path] : sets) {
    if (part_named(set) && !is_chosen(set)) chosen.unused.push_back(set);
  }
  return chosen;
}

}  // namespace fovea
