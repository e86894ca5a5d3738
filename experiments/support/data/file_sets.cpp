#include "experiments/support/data/file_sets.h"

#include <algorithm>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/records.h"
#include "experiments/support/text/split_mix.h"
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

/// `train.lc.en.txt.gz`, `en`: `train.lc`; nothing if the file is of another language. With `stands_first`, OpenNMT's
/// names, `en-train.txt`: `train`.
std::optional<std::string> set_of(const std::string& file, const std::string& language, bool stands_first) {
  const std::string set = without_endings(file), before = language + "-", behind = "." + language;
  if (language.empty()) return set;
  if (stands_first)
    return set.starts_with(before) && part_named(set.substr(before.size())) ? std::optional(set.substr(before.size()))
                                                                            : std::nullopt;
  if (!set.ends_with(behind) || set == behind) return {};
  return set.substr(0, set.size() - behind.size());
}

/// The set that is asked for: `test_2016` may also be the beginning of one name, `test_2016.lc`.
std::string asked_set(const FileSets& sets, const std::string& asked) {
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

}  // namespace

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

std::optional<Part> part_called(std::string_view word) {
  const auto found = std::ranges::find(part_words, lower_case(word), &std::pair<std::string_view, Part>::first);
  return found == std::end(part_words) ? std::nullopt : std::optional(found->second);
}

std::string set_name(const fs::path& file) { return without_endings(file.filename().string()); }

namespace {

FileSets named_sets(const fs::path& directory, const std::string& language, bool stands_first) {
  FileSets sets;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string file = entry.path().filename().string();
    std::error_code unreadable;  // a link to itself, for example
    if (file.starts_with('.') || file.ends_with('~')) continue;
    const auto set = set_of(file, language, stands_first);
    if (!set) continue;
    if (!entry.is_regular_file(unreadable)) {
      const bool may_be_other =
          language.empty() && entry.is_directory(unreadable) && record_format(entry.path()) == RecordFormat::lines;
      require(may_be_other || !part_named(*set), "{}: {} is neither a file nor a link to one", directory.string(),
              file);
      continue;
    }
    const auto [other, is_new] = sets.emplace(*set, entry.path());
    require(is_new || (language.empty() && !part_named(*set)), "{}: both {} and {} are {}{}", directory.string(),
            other->second.filename().string(), file, *set, language.empty() ? "" : "." + language);
  }
  return sets;
}

}  // namespace

FileSets sets_of(const fs::path& directory, const std::string& language) {
  FileSets sets = named_sets(directory, language, false);
  return sets.empty() && !language.empty() ? named_sets(directory, language, true) : sets;
}

FileSets sets_beside(const fs::path& file) {
  const auto name = part_named(set_name(file));
  if (!name || name->part != Part::train) return {{set_name(file), file}};
  FileSets sets = sets_of(file.has_parent_path() ? file.parent_path() : ".", "");
  std::erase_if(sets, [&](const auto& set) { return record_format(set.second) != record_format(file); });
  sets[set_name(file)] = file;
  return sets;
}

ChosenSets choose_sets(const FileSets& sets, const SetNames& asked, const fs::path& directory, bool has_flags) {
  ChosenSets chosen;
  const auto choose = [&](Part part, const std::string& name) {
    const std::string flag = fmt::format("--{}-set", name_of(part));
    if (!name.empty()) {
      const std::string found = asked_set(sets, name);
      std::vector<std::string> names;
      for (const auto& [set, path] : sets) names.push_back(set);
      require(!found.empty(), "{} {}: {} has no such set; it has {}", flag, name, directory.string(),
              sets.empty() ? contents_of(directory) : listed(names, ", "));
      return found;
    }
    std::vector<std::string> fitting;
    for (const auto& [set, path] : sets) {
      const auto is = part_named(set);
      if (is && is->part == part && set != chosen.train) fitting.push_back(set);
    }
    if (part != Part::train) fitting = belonging(fitting, chosen.train, !asked.train.empty());
    require(fitting.size() <= 1, "{}: several {} sets: {}: {}", directory.string(), name_of(part),
            has_flags ? "choose one with " + flag : "keep one, and move the others away", alternatives(fitting));
    return fitting.empty() ? std::string() : fitting[0];
  };
  chosen.train = choose(Part::train, asked.train);
  chosen.dev = choose(Part::dev, asked.dev);
  for (const std::string& test : asked.tests) chosen.tests.push_back(choose(Part::test, test));
  if (chosen.tests.empty()) chosen.tests.push_back(choose(Part::test, ""));
  for (const auto& [set, path] : sets) {
    const bool is_chosen = set == chosen.train || set == chosen.dev || std::ranges::count(chosen.tests, set) > 0;
    if (part_named(set) && !is_chosen) chosen.unused.push_back(set);
  }
  return chosen;
}

std::string contents_of(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const bool is_file = entry.is_regular_file(unreadable), is_directory = entry.is_directory(unreadable);
    const char* kind = is_directory ? "/" : is_file ? "" : " (neither a file nor a link to one)";
    names.push_back(entry.path().filename().string() + kind);
  }
  if (names.empty()) return "nothing (the directory is empty)";
  std::ranges::sort(names);
  return first_few(names);
}

Part part_by_hash(std::string_view text, bool needs_dev, bool needs_test) {
  const double place = double(stable_hash(text) >> 11) * 0x1p-53;
  if (needs_test && place < 0.1) return Part::test;
  return needs_dev && place >= 0.1 && place < 0.2 ? Part::dev : Part::train;
}

std::string lasting_data(const std::string& data) {
  if (data.empty() || is_generated(data)) return data;
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(data), error);  // links first: link/.. is not where it seems
  if (error) path = fs::absolute(data);
  return (path.has_filename() ? path : path.parent_path()).string();  // "sst/" is "sst"
}

fs::path existing_data(const std::string& data) {
  std::error_code error;
  const bool exists = fs::exists(data, error);
  require(!error, "--data: '{}' cannot be read: {}", data, error.message());
  require(exists, "--data: '{}' does not exist; expected a file, a directory, or generated[:options]", data);
  require(
      fs::is_regular_file(data) || fs::is_directory(data),
      "--data: '{}' is neither a file nor a directory; a pipe can be read only once, and data are read several times",
      data);
  return data;
}

}  // namespace fovea
