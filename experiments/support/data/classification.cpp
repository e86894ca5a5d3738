#include "experiments/support/data/classification.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/records.h"
#include "experiments/support/data/split_mix.h"
#include "experiments/support/data/text_overlap.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// "sva_train.tsv.gz" is the training part, with "sva_" before it; nothing if the name does not end with the part, or
/// the file is of no format that is read.
std::optional<PartName> part_of(const fs::path& file) {
  fs::path name = file.filename();
  if (name.extension() == ".gz") name = name.stem();
  if (record_format(name) == RecordFormat::lines && name.extension() != ".txt") return {};
  const auto part = part_named(name.stem().string());
  return part && part->after.empty() ? part : std::nullopt;
}

/// The files of the directory that are called after a part and that `belongs` accepts.
template <class Predicate>
SplitFiles collect(const fs::path& directory, Predicate belongs) {
  SplitFiles files;
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.is_directory()) names.push_back(entry.path());
  }
  std::sort(names.begin(), names.end());
  for (const fs::path& name : names) {
    const auto is = part_of(name);
    if (!is || !belongs(name, *is)) continue;
    fs::path& slot = is->part == Part::train ? files.train : is->part == Part::dev ? files.dev : files.test;
    require(slot.empty(), "{}: which is meant, '{}' or '{}'? Move one away, or name a file with --data",
            directory.string(), slot.filename().string(), name.filename().string());
    slot = name;
  }
  return files;
}

}  // namespace

std::string describe(const ClassificationData& data) {
  constexpr std::size_t few = 8;
  const std::string count = data.classes.size() > few ? fmt::format("{} classes:", data.classes.size()) : "classes";
  return fmt::format("{}: {} train, {} dev, {} test, {} {}", data.source, data.train.size(), data.dev.size(),
                     data.test.size(), count, first_few(data.classes));
}

std::string overlap_warning(const ClassificationData& data) {
  TextOverlap overlap;
  for (const Example& example : data.train) overlap.add(Part::train, example.text);
  for (const Example& example : data.dev) overlap.add(Part::dev, example.text);
  for (const Example& example : data.test) overlap.add(Part::test, example.text);
  return overlap.warning("texts");
}

void check(const ClassificationData& data) {
  require(!data.train.empty(), "{}: no training example", data.source);
  require(!data.dev.empty(), "{}: no development example ({} for training); more texts are needed, or a file dev.tsv",
          data.source, data.train.size());
  require(!data.test.empty(), "{}: no test example ({} for training); more texts are needed, or a file test.tsv",
          data.source, data.train.size());
  std::unordered_set<int> seen;
  for (const Example& example : data.train) seen.insert(example.label);
  require(seen.size() >= 2, "{}: all {} training examples are of the class '{}': nothing to learn", data.source,
          data.train.size(), data.classes.at(static_cast<std::size_t>(data.train.front().label)));
}

double split_place(std::string_view text) { return static_cast<double>(stable_hash(text) >> 11) * 0x1p-53; }

std::vector<Example> split_off(std::vector<Example>& from, double begin, double end) {
  std::vector<Example> moved, kept;
  for (Example& example : from) {
    const double place = split_place(example.text);
    (place >= begin && place < end ? moved : kept).push_back(std::move(example));
  }
  from = std::move(kept);
  return moved;
}

void split_off_missing_parts(ClassificationData& data) {
  const bool no_test = data.test.empty(), no_dev = data.dev.empty();
  if (no_test) data.test = split_off(data.train, 0.0, 0.1);
  if (no_dev) data.dev = split_off(data.train, 0.1, 0.2);
  if (no_test || no_dev) {
    data.source += fmt::format(" ({} split off by hash)", no_test && no_dev ? "10 % dev and 10 % test"
                                                          : no_dev          ? "10 % dev"
                                                                            : "10 % test");
  }
}

void keep_some(std::vector<Example>& examples, std::int64_t limit) {
  if (limit <= 0 || static_cast<std::size_t>(limit) >= examples.size()) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order(examples.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {mix_bits(stable_hash(examples[i].text)), i};
  std::nth_element(order.begin(), order.begin() + limit, order.end());
  order.resize(static_cast<std::size_t>(limit));
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Example> kept;
  kept.reserve(order.size());
  for (const auto& [hash, i] : order) kept.push_back(std::move(examples[i]));
  examples = std::move(kept);
}

void add_limits(Cli& cli, ExampleLimits& limits) {
  cli.option("--train-examples", limits.train_examples, "the number of training examples, chosen by hash; 0: all")
      .at_least(0)
      .rare();
  cli.option("--test-examples", limits.test_examples, "the number of test examples, chosen by hash; 0: all")
      .at_least(0)
      .rare();
  cli.option("--also-test", limits.also_test,
             "further test sets, separated by commas; files (all of their examples) or directories (their test sets) "
             "like --data")
      .saved_as(lasting_paths)
      .rare();
}

void add_test_sets(ClassificationData& data, const std::string& also_test,
                   const std::function<ClassificationData(const fs::path& path)>& read) {
  for (std::string_view name : split_columns(also_test, ',')) {
    if (name.empty()) continue;
    const fs::path path = existing_data(std::string(name));
    ClassificationData from = read(path);
    std::vector<Example> examples = std::move(from.test);
    if (!fs::is_directory(path))
      for (std::vector<Example>* part : {&from.train, &from.dev})
        std::move(part->begin(), part->end(), std::back_inserter(examples));
    require(!examples.empty(), "--also-test {}: has no test examples", name);
    for (Example& example : examples) {
      const std::string& label = from.classes.at(static_cast<std::size_t>(example.label));
      const auto known = std::find(data.classes.begin(), data.classes.end(), label);
      require(known != data.classes.end(), "--also-test {}: the training set has no label '{}'; it has {}", name,
              printable(label), first_few(data.classes));
      example.label = static_cast<int>(known - data.classes.begin());
    }
    data.more_tests.push_back({path.stem().string(), std::move(examples)});
  }
}

ClassificationData completed(ClassificationData data, const ExampleLimits& limits) {
  split_off_missing_parts(data);
  keep_some(data.train, limits.train_examples);
  keep_some(data.test, limits.test_examples);
  check(data);
  return data;
}

SplitFiles find_split_files(const fs::path& directory) {
  return collect(directory, [](const fs::path&, const PartName&) { return true; });
}

SplitFiles with_siblings(const fs::path& file) {
  const auto is = part_of(file);
  if (!is || is->part != Part::train) return {.train = file, .dev = {}, .test = {}};
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  SplitFiles files = collect(directory, [&](const fs::path& other, const PartName& part) {
    return part.part != Part::train && part.before == is->before && other.extension() == file.extension() &&
           record_format(other) == record_format(file);
  });
  files.train = file;
  return files;
}

std::string named(const SplitFiles& files) {
  std::string text = files.train == "-" ? "standard input" : files.train.string();
  for (const fs::path& other : {files.dev, files.test}) {
    if (!other.empty()) text += ", " + other.filename().string();
  }
  return text;
}

std::string contents_of(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string() + (entry.is_directory() ? "/" : ""));
  }
  if (names.empty()) return "nothing (the directory is empty)";
  std::sort(names.begin(), names.end());
  return first_few(names);
}

std::string lasting_data(const std::string& data) {
  if (data.empty() || data == "-" || is_generated(data)) return data;
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(data), error);  // links first: link/.. is not where it seems
  if (error) path = fs::absolute(data);
  return (path.has_filename() ? path : path.parent_path()).string();  // "sst/" is "sst"
}

std::string lasting_paths(const std::string& paths) {
  std::string all;
  for (std::string_view path : split_columns(paths, ','))
    all += (all.empty() ? "" : ",") + lasting_data(std::string(path));
  return all;
}

fs::path existing_data(const std::string& data) {
  std::error_code error;
  bool exists = data == "-" || fs::exists(data, error);
  require(!error, "--data: '{}' cannot be read: {}", data, error.message());
  require(exists, "--data: '{}' does not exist; expected a file, a directory, or generated[:options]", data);
  return data;
}

}  // namespace fovea
