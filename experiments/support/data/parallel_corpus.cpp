#include "experiments/support/data/parallel_corpus.h"

#include <algorithm>
#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The set's name without the ending of records: `train` for train.jsonl.
std::string without_format(const std::string& set) {
  return record_format(set) == RecordFormat::lines ? set : fs::path(set).stem().string();
}

/// "; columns 1, 2", "; keys text, summary"
std::string describe(const RecordFields& fields, RecordFormat format) {
  if (fields.names.empty()) return "";
  return fmt::format("; {}{} {}", format == RecordFormat::jsonl ? "key" : "column", fields.names.size() > 1 ? "s" : "",
                     listed(fields.names, ", "));
}

std::string joined_reasons(const SkippedPairs& skipped) {
  std::vector<std::string> reasons;
  const auto add = [&](std::int64_t count, const char* reason) {
    if (count > 0) reasons.push_back(fmt::format("{} {}", count, reason));
  };
  add(skipped.no_text, "not UTF-8 text");
  add(skipped.blank, "blank");
  add(skipped.too_long, "too long");
  add(skipped.unpaired, "without a partner");
  add(skipped.broken, "no proper record");
  return listed(reasons, ", ");
}

}  // namespace

std::string describe(const SkippedPairs& skipped, std::string_view noun) {
  if (skipped.total() == 0) return "";
  return fmt::format("{} skipped: {}; the first: {}", counted(static_cast<std::size_t>(skipped.total()), noun),
                     joined_reasons(skipped), skipped.first);
}

PairReader::PairReader(const PairFiles& files, const LineRules& rules) : rules_(rules) {
  if (files.format == RecordFormat::lines) {
    has_source_ = !files.source.empty();
    if (has_source_) source_.emplace(files.source);
    target_.emplace(files.target);
  } else {
    has_source_ = files.has_source();
    records_.emplace(files.target, files.format, files.fields);
  }
  if (!files.alignment.empty()) alignment_.emplace(files.alignment);
}

bool PairReader::next(TextPair& pair) {
  pair = {};
  return records_ ? next_record(pair) : next_lines(pair);
}

bool PairReader::next_lines(TextPair& pair) {
  const auto has_fault_in = [&](const LineReader& file, const std::string& line) {
    return has_fault(line, fmt::format("{}:{}", file.name(), file.number()), "a blank line");
  };
  do {
    const bool source = source_ && source_->next_of_any_kind(pair.source);
    const bool target = target_->next_of_any_kind(pair.target);
    const bool alignment = alignment_ && alignment_->next(pair.alignment);
    if (!target || source != source_.has_value() || alignment != alignment_.has_value()) {
      end_together(source, target, alignment);
      return false;
    }
  } while ((source_ && has_fault_in(*source_, pair.source)) || has_fault_in(*target_, pair.target));
  return true;
}

bool PairReader::next_record(TextPair& pair) {
  for (std::vector<std::string> texts;;) {
    try {
      if (!records_->next(texts)) return false;
    } catch (const RecordFault& fault) {
      report(&SkippedPairs::broken, fault.what());
      continue;
    }
    const std::string place = fmt::format("{}:{}", records_->name(), records_->number());
    if (has_source_ && has_fault(texts[0], place, "the source is blank")) continue;
    if (has_fault(texts[has_source_], place, has_source_ ? "the target is blank" : "the text is blank")) continue;
    if (has_source_) pair.source = std::move(texts[0]);
    pair.target = std::move(texts[has_source_]);
    for (std::size_t k = 2; k < texts.size(); ++k)
      if (!is_blank(texts[k])) pair.more_targets.push_back(std::move(texts[k]));
    return true;
  }
}

bool PairReader::has_fault(const std::string& text, const std::string& place, std::string_view if_blank) {
  if (const std::string fault = text_fault(text); !fault.empty())
    return report(&SkippedPairs::no_text, fmt::format("{}: {}", place, fault));
  const TextLength length = length_of(text);
  if (length.count == 0)  // blank lines of texts alone stand between paragraphs
    return report(&SkippedPairs::blank, fmt::format("{}: {}", place, if_blank), !has_source_);
  if (rules_.max_words == 0 || length.count <= rules_.max_words) return false;
  return report(&SkippedPairs::too_long,
                fmt::format("{}: {} {}, --max-words is {}", place, length.count, length.unit, rules_.max_words));
}

bool PairReader::report(std::int64_t SkippedPairs::*kind, const std::string& message, bool is_harmless) {
  require(is_harmless || rules_.bad_lines == BadLines::skip, "{} (--bad-lines skip leaves such pairs out)", message);
  if (skipped_.total() == 0) skipped_.first = message;
  ++(skipped_.*kind);
  return true;
}

void PairReader::end_together(bool source, bool target, bool alignment) {
  std::vector<LineReader*> ended, going_on;
  (target ? going_on : ended).push_back(&*target_);
  if (source_) (source ? going_on : ended).push_back(&*source_);
  if (alignment_) (alignment ? going_on : ended).push_back(&*alignment_);
  if (going_on.empty()) return;
  const std::int64_t lines = ended[0]->number();
  const std::string message = fmt::format("{}:{}: a line without a partner: {} has {}", going_on[0]->name(), lines + 1,
                                          ended[0]->name(), counted(static_cast<std::size_t>(lines), "line"));
  std::string ignored;
  do {
    report(&SkippedPairs::unpaired, message);
  } while (going_on[0]->next_of_any_kind(ignored));
}

void add_options(Cli& cli, ParallelCorpusOptions& options) {
  cli.option("--source", options.source,
             "the source's files, by the end of their names; en for train.en, or a column or JSON key");
  cli.option("--target", options.target,
             "the target's files, by the end of their names; de for train.de, or a column or JSON key; language models "
             "need none for train.txt");
  cli.option(
      "--columns", options.columns,
      "the columns of source and target in a table; by number from 1 or by name: 1,2, or keys of JSON lines "
      "(.jsonl): dialogue,summary; of a language model's data one; more than two: further references of the test "
      "(document,summary1,summary2)");
  cli.choice("--header", options.header, {{"auto", Header::automatic}, {"yes", Header::yes}, {"no", Header::no}},
             "whether the first line of a table names the columns; auto: where --columns has names")
      .rare();
  cli.option(
         "--train-set", options.train_set,
         "the training set of a directory; a file name without its language ending; default: the one called train...")
      .rare();
  cli.option("--dev-set", options.dev_set,
             "the development set; default: dev..., val... or valid..., otherwise a tenth of the training set")
      .rare();
  cli.option("--test-set", options.test_set,
             "the test set, or several: news,talks; default: test..., otherwise a tenth of the training set");
  cli.choice("--bad-lines", options.lines.bad_lines, {{"refuse", BadLines::refuse}, {"skip", BadLines::skip}},
             "what to do with pairs that are blank, not UTF-8, too long or without a partner")
      .rare();
  cli.option("--max-words", options.lines.max_words,
             "the most words of a text; pairs with longer texts are bad lines (Chinese and Japanese: characters); 0: "
             "any number")
      .unit("words")
      .at_least(0)
      .rare();
}

ParallelCorpus::ParallelCorpus(const ParallelCorpusOptions& options) : options_(options) {
  const fs::path path = existing_data(options.data);
  require(fs::is_directory(path) || fs::is_regular_file(path), "--data: '{}' is neither a file nor a directory",
          options_.data);
  if (fs::is_directory(path)) {
    find_sets(path);
  } else {
    find_parts(path);
  }
}

void ParallelCorpus::find_parts(const fs::path& file) {
  const bool has_names = !options_.source.empty() || !options_.target.empty();
  require(format_of(file) != RecordFormat::lines || (!has_names && !options_.needs_source),
          "--data: '{}' is one file of lines; --source and --target name files of a directory, or fields of records "
          "(.jsonl, .tsv, .csv); --columns 1,2 reads tab-separated columns",
          options_.data);
  const auto name = part_named(without_format(set_name(file)));
  if (name && name->part == Part::train) {
    const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
    TextSets sets = sets_of(directory, "");
    std::erase_if(sets, [&](const auto& set) { return record_format(set.second) != record_format(file); });
    choose_files(sets, set_name(file), directory);
  }
  if (!files(Part::dev).empty() || !files(Part::test).empty()) return;
  files_ = {records_or_lines(file), {}, {}};
  if (options_.needs_source) return;
  LineReader reader(file);
  for (std::string line; reader.next_of_any_kind(line);) continue;
  lines_ = reader.number();
}

RecordFormat ParallelCorpus::format_of(const fs::path& file) const {
  const RecordFormat format = record_format(file);
  const bool may_be_words = format == RecordFormat::lines || format == RecordFormat::tsv;
  const bool is_named = !options_.source.empty() || !options_.target.empty();
  if (may_be_words && options_.needs_source && !is_named && looks_like_conll(file)) return RecordFormat::conll;
  return format == RecordFormat::lines && !options_.columns.empty() ? RecordFormat::tsv : format;
}

RecordFields ParallelCorpus::fields_of(const fs::path& file, RecordFormat format) const {
  RecordFields fields{.names = {}, .header = options_.header};
  if (!options_.columns.empty()) fields.names = split_fields(options_.columns);
  for (const std::string& name : {options_.source, options_.target}) {
    if (!options_.columns.empty() || name.empty()) continue;
    for (std::string& field : split_fields(name)) fields.names.push_back(std::move(field));
  }
  const std::size_t texts = options_.needs_source ? 2 : 1;
  if (fields.names.empty()) {
    const std::vector<std::string> found = first_fields(file, format);
    require(!found.empty(), "{}: the file is empty", file.string());
    const bool is_json = format == RecordFormat::jsonl;
    constexpr std::size_t columns_of_conllu = 10;
    if (format == RecordFormat::conll && found.size() == columns_of_conllu && found[0].starts_with('1')) {
      fields.names = texts == 2 ? std::vector<std::string>{"form", "upos"} : std::vector<std::string>{"form"};
    } else if (is_json && texts == 1 && std::find(found.begin(), found.end(), "text") != found.end()) {
      fields.names = {"text"};
    } else if (!is_json && found.size() == texts) {
      for (std::size_t k = 1; k <= texts; ++k) fields.names.push_back(std::to_string(k));
    } else {
      fail("{}: --columns {} must choose {} of the {}: {}{}", file.string(), texts == 2 ? "SOURCE,TARGET" : "TEXT",
           texts == 2 ? "two" : "one", counted(found.size(), is_json ? "key" : "column"), shown(found),
           is_json ? "" : " (by number from 1, or by name where the first line has names)");
    }
  }
  require(fields.names.size() == texts || (texts == 2 && fields.names.size() > 2), "--columns {}: {}, expected {}",
          listed(fields.names, ","), counted(fields.names.size(), "field"),
          texts == 2 ? "2 (source, target), or more (further references)" : "1");
  return fields;
}

PairFiles ParallelCorpus::records_or_lines(const fs::path& file) const {
  PairFiles files{.source = {}, .target = file, .alignment = {}, .format = format_of(file), .fields = {}};
  if (files.format == RecordFormat::lines) return files;
  files.fields = fields_of(file, files.format);
  RecordReader refuses_wrong_columns(file, files.format, files.fields);
  return files;
}

TextSets ParallelCorpus::sets_of_records(const fs::path& directory) const {
  TextSets sets = sets_of(directory, "");
  std::erase_if(sets, [&](const auto& set) { return format_of(set.second) == RecordFormat::lines; });
  const bool has_part = std::any_of(sets.begin(), sets.end(), [](const auto& set) { return !!part_named(set.first); });
  return has_part || !options_.train_set.empty() ? sets : TextSets();  // config.json is no data
}

void ParallelCorpus::find_sets(const fs::path& directory) {
  require(!options_.columns.empty() || !options_.target.empty() || options_.source.empty(),
          "--target is missing: the names of the target's files end with it, as de in train.de");
  require(options_.source.empty() || options_.source != options_.target, "--source and --target are both '{}'",
          options_.source);
  if (options_.target.empty() && !options_.needs_source)
    return choose_files(sets_of(directory, ""), options_.train_set, directory);
  const TextSets targets = options_.target.empty() ? TextSets() : sets_of(directory, options_.target);
  const TextSets records = targets.empty() ? sets_of_records(directory) : TextSets();
  if (!records.empty()) return choose_files(records, options_.train_set, directory);
  require(!options_.needs_source || !options_.source.empty(),
          "--source is missing: the names of the source's files end with it, as en in train.en, and those of the "
          "target's files with --target; there are no records either (train.jsonl, train.tsv, train.csv)");
  choose_files(targets, options_.train_set, directory);
}

void ParallelCorpus::choose_files(const TextSets& targets, const std::string& train_set, const fs::path& directory) {
  const TextSets alignments = sets_of(directory, "align");
  const ChosenSets chosen = choose_sets(targets, {train_set, options_.dev_set, options_.test_set}, directory);
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string& set = chosen.names[k];
    if (set.empty()) continue;
    files_[k] = records_or_lines(targets.at(set));
    if (alignments.contains(set)) files_[k].alignment = alignments.at(set);
    if (files_[k].format != RecordFormat::lines || options_.source.empty()) continue;
    const TextSets sources = sets_of(directory, options_.source);
    require(sources.contains(set), "{}: there is {}, but no {}.{}", directory.string(),
            targets.at(set).filename().string(), set, options_.source);
    files_[k].source = sources.at(set);
  }
  for (const std::string& set : chosen.unused) unused_.push_back(targets.at(set).filename().string());
  if (files(Part::train).empty() && options_.needs_training_set) fail_without_training_set(directory);
}

void ParallelCorpus::fail_without_training_set(const fs::path& directory) const {
  require(!options_.target.empty(),
          "{}: no training set: the name of a file must have the word train in it, as train.txt or wiki.train.tokens "
          "(.gz too), or --train-set NAME must choose one; found {}",
          directory.string(), contents_of(directory));
  fail("{}: no training set train.{} (.txt and .gz too); found {}", directory.string(), options_.target,
       contents_of(directory));
}

Part ParallelCorpus::part_of(const TextPair& pair, std::int64_t line) const {
  if (lines_ > 0) {
    const double place = static_cast<double>(line) / static_cast<double>(lines_);
    return place > 0.9 ? Part::test : place > 0.8 ? Part::dev : Part::train;
  }
  const double place = split_place(pair.source.empty() ? pair.target : pair.source);
  if (files(Part::test).empty() && place < 0.1) return Part::test;
  return files(Part::dev).empty() && place >= 0.1 && place < 0.2 ? Part::dev : Part::train;
}

void ParallelCorpus::visit(Part part, const std::function<void(const TextPair&)>& visitor) const {
  const bool has_files = !files(part).empty();
  require(has_files || !files(Part::train).empty(),
          "--data: '{}' has neither a {} set nor a training set, of which it "
          "would be a tenth",
          options_.data, name_of(part));
  PairReader reader(files(has_files ? part : Part::train), options_.lines);
  const bool whole = has_files && part != Part::train;
  for (TextPair pair; reader.next(pair);) {
    if (whole || part_of(pair, reader.number()) == part) visitor(pair);
  }
  if (has_files) skipped_[static_cast<std::size_t>(part)] = reader.skipped();
}

std::string ParallelCorpus::description() const {
  std::string how;
  for (const PairFiles& files : files_) {
    if (how.empty()) how = describe(files.fields, files.format);
  }
  if (!unused_.empty()) how += "; not used: " + listed(unused_, ", ");
  if (lines_ > 0) return options_.data + ": the last tenth of its lines is test, the tenth before dev" + how;
  std::string text = options_.data + ":";
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const PairFiles& of_part = files(part);
    if (of_part.empty() && files(Part::train).empty()) continue;
    if (of_part.empty()) {
      text += fmt::format(" {} 10 % of train by hash;", name_of(part));
      continue;
    }
    const std::string source = of_part.source.empty() ? "" : of_part.source.filename().string() + " and ";
    text += fmt::format(" {} {}{};", name_of(part), source, of_part.target.filename().string());
  }
  text.pop_back();
  return text + how;
}

std::string ParallelCorpus::left_out() const {
  std::string text;
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const std::string skipped_pairs = describe(skipped(part), files(part).has_source() ? "pair" : "line");
    if (skipped_pairs.empty()) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name_of(part), skipped_pairs);
  }
  return text;
}

}  // namespace fovea
