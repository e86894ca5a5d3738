#include "experiments/support/data/labelled_texts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

const Role text_role{.what = "TEXT", .names = {"sentence", "text", "review", "phrase", "document"}};
const Role label_role{
    .what = "LABEL", .names = {"label", "class", "sentiment", "category", "polarity", "target"}, .takes_numbers = true};

void LabelledTexts::visit(Part part, const PairVisitor& visitor, std::size_t test) const {
  for (const TextPair& pair : part == Part::test && test > 0 ? more_tests.at(test - 1).texts : (*this)[part])
    visitor(pair);
}

std::string LabelledTexts::description() const {
  constexpr std::size_t few = 8;
  const std::string count = labels.size() > few ? fmt::format("{} classes:", labels.size()) : "classes";
  return fmt::format("{}: {} train, {} dev, {} test, {} {}", source, parts[0].size(), parts[1].size(), parts[2].size(),
                     count, first_few(labels));
}

std::vector<std::string> LabelledTexts::tests() const {
  std::vector<std::string> names{"test"};
  for (const TestSet& more : more_tests) names.push_back(more.name);
  return names;
}

std::string SplitFiles::description() const {
  std::string text = train.string();
  for (const fs::path& other : {dev, test})
    if (!other.empty()) text += ", " + other.filename().string();
  return text;
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

RecordFormat table_format(const fs::path& file) {
  const RecordFormat format = record_format(file);
  return format == RecordFormat::lines || format == RecordFormat::conll ? RecordFormat::tsv : format;
}

std::string tidy_text(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool may_be = text[i] == '<' && lower_case(text.substr(i, 3)) == "<br";
    const std::size_t end = may_be ? text.find_first_not_of(" /", i + 3) : text.npos;
    const bool is_break = end != text.npos && end < i + 8 && text[end] == '>';
    result += is_break ? ' ' : text[i];
    i = is_break ? end + 1 : i + 1;
  }
  return join_words(split_words(result));
}

namespace {

struct LabelledRow {
  std::string text, label, subset;
  std::int64_t line = 0;
};

/// The records of a file, and the fields that were read.
struct ReadTable {
  std::string name;
  std::vector<std::string> fields, numbers;  ///< by name, if there are names, and by number
  std::vector<LabelledRow> rows;
  bool has_header = false;
  const char* kind = "columns";  ///< or "keys"

  template <class... Args>
  void require_at(const LabelledRow& row, bool claim, fmt::format_string<Args...> format, Args&&... args) const {
    if (!claim) fail("{}:{}: {}", name, row.line, fmt::format(format, std::forward<Args>(args)...));
  }
};

ReadTable read_table(const fs::path& file, const RecordFields& fields) {
  const Role subset{.what = "SUBSET", .names = {"subset"}, .is_optional = true};
  RecordReader reader(file, table_format(file), {text_role, label_role, subset}, fields);
  ReadTable table{reader.name(), reader.fields(), reader.numbers(), {}, reader.has_header()};
  if (table_format(file) == RecordFormat::jsonl) table.kind = "keys";
  table.fields.resize(2);
  table.numbers.resize(std::min<std::size_t>(table.numbers.size(), 2));
  require(table.fields[0] != table.fields[1], "--columns {}: one column cannot be text and label",
          listed(table.fields, ","));
  for (std::vector<std::string> values; reader.next(values);)
    table.rows.push_back({values[0], values[1], values[2], reader.number()});
  require(!table.rows.empty(), "{}: the file has a header ({}), but no line below it", table.name,
          listed(table.fields, ", "));
  return table;
}

/// Whether the first of two columns, not the second, has the labels: fewer different values, unless they are the longer
/// ones. The first row may be a header that nobody knows.
bool labels_are_first(const ReadTable& table) {
  std::unordered_set<std::string_view> values[2];
  std::size_t words[2] = {};
  for (std::size_t i = 1; i < table.rows.size(); ++i)
    for (const int c : {0, 1}) {
      const std::string& value = c == 0 ? table.rows[i].text : table.rows[i].label;
      values[c].insert(value);
      words[c] += split_words(value).size();
    }
  const auto is_label = [&](int a, int b) {
    return values[a].size() <= values[b].size() && words[a] <= words[b] &&
           (values[a].size() < values[b].size() || words[a] < words[b]);
  };
  require(table.rows.size() > 1, "{}: one line only ({}, {}); expected examples of two labels or more", table.name,
          table.rows[0].text, table.rows[0].label);
  require(is_label(0, 1) || is_label(1, 0),
          "{}: which of the two columns is the label? The first has {} different values, the second {}: say --columns "
          "1,2 or 2,1 (text, label)",
          table.name, values[0].size(), values[1].size());
  return is_label(0, 1);
}

/// Throws Error if the first row, read as an example, is likely a header of unknown names: its label occurs in no other
/// row, although labels repeat.
void refuse_likely_header(const ReadTable& table) {
  std::unordered_set<std::string_view> labels;
  for (std::size_t i = 1; i < table.rows.size(); ++i) labels.insert(table.rows[i].label);
  const LabelledRow& first = table.rows[0];
  table.require_at(first,
                   table.rows.size() < 10 || 2 * labels.size() >= table.rows.size() || labels.contains(first.label),
                   "looks like a header ({}, {}): the label '{}' is on no other line; give --header yes if the line "
                   "names the columns, --header no if it is an example",
                   first.text, first.label, first.label);
}

/// The labels in the order of their numbers, or of their bytes where they are not all whole numbers.
std::vector<std::string> classes_of(const ReadTable& table) {
  constexpr std::size_t most = 1000;
  std::set<std::string> distinct;
  for (const LabelledRow& row : table.rows) {
    distinct.insert(row.label);
    table.require_at(row, distinct.size() <= most,
                     "more than {} different labels, the last '{}': is this the column of the texts? (--columns)", most,
                     row.label.substr(0, 40));
  }
  std::vector<std::string> classes(distinct.begin(), distinct.end());
  const auto value = [](const std::string& label) { return number<double>(label).value_or(0); };
  if (std::ranges::all_of(classes, is_whole_number)) std::ranges::stable_sort(classes, {}, value);
  return classes;
}

/// Trims labels, and refuses rows without text or label.
void tidy(ReadTable& table) {
  for (LabelledRow& row : table.rows) {
    const auto words = split_words(row.label);
    table.require_at(row, !words.empty(), "the label is empty");
    row.label = std::string(words.front().data(), words.back().data() + words.back().size());
    row.text = tidy_text(row.text);
    table.require_at(row, !row.text.empty(), "the text is empty");
  }
}

}  // namespace

LabelledTexts read_tables(const SplitFiles& files, const RecordFields& fields) {
  ReadTable train = read_table(files.train, fields);
  const bool is_guessed = fields.names.empty() && is_whole_number(train.fields[0]);
  if (is_guessed && labels_are_first(train)) {
    for (LabelledRow& row : train.rows) std::swap(row.text, row.label);
    train.fields = {"2", "1"};
  }
  tidy(train);
  if (!train.has_header && is_whole_number(train.fields[0]) && fields.header == Header::automatic)
    refuse_likely_header(train);
  LabelledTexts data;
  data.labels = classes_of(train);
  data.source = fmt::format("{}: {} {} as text and label{}", files.description(), train.kind,
                            listed(train.fields, " and "), train.has_header ? ", under a header" : "");
  const std::set<std::string> known(data.labels.begin(), data.labels.end());
  const auto add = [&](ReadTable& table, Part part) {
    for (LabelledRow& row : table.rows) {
      if (!known.contains(row.label))
        table.require_at(row, false, "label '{}' does not occur in {} ({})", row.label, train.name,
                         first_few(data.labels));
      const bool is_dev = part == Part::train && files.dev.empty() && (row.subset == "val" || row.subset == "dev");
      data[is_dev ? Part::dev : part].push_back({.source = std::move(row.text), .target = std::move(row.label)});
    }
  };
  add(train, Part::train);
  for (const auto& [part, file] : {std::pair(Part::dev, files.dev), std::pair(Part::test, files.test)}) {
    if (file.empty()) continue;
    // the columns have the names of the training file, or else its places
    RecordFields same{.names = train.fields, .header = train.has_header ? fields.header : Header::no};
    const std::vector<std::string> first = first_fields(file, table_format(file));
    const bool has_names =
        std::ranges::all_of(train.fields, [&](const std::string& name) { return std::ranges::count(first, name) > 0; });
    if (train.has_header && fields.header != Header::yes && !has_names)
      same = {.names = train.numbers, .header = Header::no};
    ReadTable other = read_table(file, same);
    tidy(other);
    add(other, part);
  }
  return data;
}

void add_options(Cli& cli, ExampleLimits& limits) {
  cli.option("--train-examples", limits.train_examples, "the number of training examples, chosen by hash; 0: all")
      .at_least(0)
      .rare();
  cli.option("--test-examples", limits.test_examples, "the number of test examples, chosen by hash; 0: all")
      .at_least(0)
      .rare();
  cli.option("--also-test", limits.also_test,
             "further test sets, separated by commas; files (all of their examples) or directories (their test sets) "
             "like --data")
      .saved_as([](const std::string& paths) {
        std::vector<std::string> lasting;
        for (const std::string_view path : split_columns(paths, ','))
          lasting.push_back(lasting_data(std::string(path)));
        return listed(lasting, ",");
      })
      .rare();
}

void split_off_missing_parts(LabelledTexts& data) {
  const bool no_dev = data[Part::dev].empty(), no_test = data[Part::test].empty();
  if (!no_dev && !no_test) return;
  std::vector<TextPair> all = std::move(data[Part::train]);
  data[Part::train].clear();
  for (TextPair& pair : all) data[part_by_hash(pair.source, no_dev, no_test)].push_back(std::move(pair));
  data.source += fmt::format(" ({} split off by hash)", no_test && no_dev ? "10 % dev and 10 % test"
                                                        : no_dev          ? "10 % dev"
                                                                          : "10 % test");
}

namespace {

void keep_some(std::vector<TextPair>& pairs, std::int64_t limit) {
  if (limit <= 0 || limit >= std::ssize(pairs)) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order(pairs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {mix_bits(stable_hash(pairs[i].source)), i};
  std::nth_element(order.begin(), order.begin() + limit, order.end());
  order.resize(static_cast<std::size_t>(limit));
  std::ranges::sort(order, {}, [](const auto& item) { return item.second; });
  std::vector<TextPair> kept;
  for (const auto& [hash, i] : order) kept.push_back(std::move(pairs[i]));
  pairs = std::move(kept);
}

}  // namespace

LabelledTexts completed(LabelledTexts data, const ExampleLimits& limits,
                        const std::function<LabelledTexts(const fs::path& path)>& read) {
  split_off_missing_parts(data);
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
  for (const std::string_view name : split_columns(limits.also_test, ',')) {
    if (name.empty()) continue;
    const fs::path path = existing_data(std::string(name));
    LabelledTexts from = read(path);
    std::vector<TextPair> pairs = std::move(from[Part::test]);
    if (!fs::is_directory(path))
      for (const Part part : {Part::train, Part::dev}) std::ranges::move(from[part], std::back_inserter(pairs));
    require(!pairs.empty(), "--also-test {}: has no test examples", name);
    for (const TextPair& pair : pairs)
      require(std::ranges::count(data.labels, pair.target) > 0,
              "--also-test {}: the training set has no label '{}'; it has {}", name, printable(pair.target),
              first_few(data.labels));
    data.more_tests.push_back({path.stem().string(), std::move(pairs)});
  }
  return data;
}

}  // namespace fovea
