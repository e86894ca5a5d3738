#include "experiments/support/data/labelled_texts.h"

#include <algorithm>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/records.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

LabelledTexts::LabelledTexts(const PairSource& pairs)
    : labels(pairs.classes()), groups(pairs.group()), source(pairs.description()) {
  for (const Part part : all_parts) pairs.visit(part, [&](const TextPair& pair) { (*this)[part].push_back(pair); });
}

void LabelledTexts::visit(Part part, const PairVisitor& visitor, std::size_t) const {
  for (const TextPair& pair : (*this)[part]) visitor(pair);
}

std::string LabelledTexts::description() const {
  constexpr std::size_t few = 8;
  const std::string count = labels.size() > few ? fmt::format("{} classes:", labels.size()) : "classes";
  return fmt::format("{}: {} train, {} dev, {} test, {} {}", source, parts[0].size(), parts[1].size(), parts[2].size(),
                     count, first_few(labels));
}

SplitFiles split_files(const fs::path& path) {
  const bool is_directory = fs::is_directory(path);
  FileSets sets = is_directory ? sets_of(path, "") : sets_beside(path);
  std::erase_if(sets, [&](const auto& set) {
    const fs::path name = set.second.extension() == ".gz" ? set.second.stem() : set.second;
    return set.second != path && record_format(name) == RecordFormat::lines && name.extension() != ".txt";
  });
  const ChosenSets chosen = choose_sets(sets, {.train = is_directory ? "" : set_name(path)}, path, false);
  const auto file = [&](const std::string& set) { return set.empty() ? fs::path() : sets.at(set); };
  return {file(chosen.train), file(chosen.dev), file(chosen.tests[0])};
}

LabelledTexts read_files(const SplitFiles& files, const LabelledReader& read) {
  LabelledTexts data;
  data.source = files[0].string();
  for (const Part part : all_parts) {
    const fs::path& file = files[std::size_t(part)];
    if (file.empty()) continue;
    read(data, part, file);
    if (part != Part::train) data.source += ", " + file.filename().string();
  }
  return data;
}

void ExampleLimits::add_to(Cli& cli) {
  cli.rare("--train-examples", train_examples, "the number of training examples, chosen by hash; 0: all").at_least(0);
  cli.rare("--test-examples", test_examples, "the number of test examples, chosen by hash; 0: all").at_least(0);
}

namespace {

void split_off_missing_parts(LabelledTexts& data) {
  const bool no_dev = data[Part::dev].empty(), no_test = data[Part::test].empty();
  if (!no_dev && !no_test) return;
  std::vector<TextPair> all = std::move(data[Part::train]);
  data[Part::train].clear();
  for (TextPair& pair : all) data[part_by_hash(pair.source, no_dev, no_test)].push_back(std::move(pair));
  data.source += fmt::format(" ({}{}{} split off by hash)", no_dev ? "10 % dev" : "", no_dev && no_test ? " and " : "",
                             no_test ? "10 % test" : "");
}

void keep_hard(std::vector<TextPair>& pairs) {
  std::erase_if(pairs, [](const TextPair& pair) { return !pair.is_hard; });
}

void keep_some(std::vector<TextPair>& pairs, std::int64_t limit) {
  if (limit <= 0 || limit >= std::ssize(pairs)) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order(pairs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {mix_bits(stable_hash(pairs[i].source)), i};
  std::nth_element(order.begin(), order.begin() + limit, order.end());
  order.resize(std::size_t(limit));
  std::ranges::sort(order, {}, [](const auto& item) { return item.second; });
  std::vector<TextPair> kept;
  for (const auto& [hash, i] : order) kept.push_back(std::move(pairs[i]));
  pairs = std::move(kept);
}

}  // namespace

LabelledTexts completed(LabelledTexts data, const ExampleLimits& limits) {
  split_off_missing_parts(data);
  if (limits.hard_subset) keep_hard(data[Part::test]), data.source += " (test: hard subset)";
  keep_some(data[Part::train], limits.train_examples);
  keep_some(data[Part::test], limits.test_examples);
  const std::vector<TextPair>& train = data[Part::train];
  for (const auto& [part, noun] :
       {std::pair(Part::train, "training"), std::pair(Part::dev, "development"), std::pair(Part::test, "test")})
    require(!data[part].empty(), "{}: no {} example ({} for training); more texts are needed, or a file {}.tsv",
            data.source, noun, train.size(), name_of(part));
  require(std::ranges::any_of(train, [&](const TextPair& pair) { return pair.target != train[0].target; }),
          "{}: all {} training examples are of the class '{}': nothing to learn", data.source, train.size(),
          train[0].target);
  return data;
}

}  // namespace fovea
