/// Sentences and their translations, articles and their summaries, texts alone: files whose lines belong together, or
/// records of which the texts are fields.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/records.h"
#include "experiments/support/data/text_pair.h"

namespace fovea {

class Cli;

enum class BadLines { refuse, skip };

struct LineRules {
  BadLines bad_lines = BadLines::refuse;
  std::int64_t max_words = 0;  ///< on either side; 0: any number
  bool has_words = false;  ///< the target has a tag for each word of the source, and a file without names of columns
                           ///< is CoNLL's: a word a line
};

/// The files of one part, plain or gzip-compressed: line i of each belongs together. Or one file of records, in which
/// both texts of a pair are fields.
struct PairFiles {
  std::filesystem::path source;  ///< empty: the texts have no source, or it is a field of the target's file
  std::filesystem::path target;
  std::filesystem::path alignment = {};  ///< gold links; empty: none are known
  RecordFormat format = RecordFormat::lines;
  RecordFields fields = {};  ///< of records: source, target and further references, or the texts alone
  bool has_source = false;   ///< whether the texts have a source, in whatever file

  bool empty() const { return target.empty(); }
};

/// The number of pairs that were left out.
struct SkippedPairs {
  std::map<std::string, std::int64_t> reasons;  ///< "blank": 2
  std::string first;                            ///< "train.en:17: byte 3 is 0xef: ..."

  /// "3 pairs skipped: 2 blank, 1 not UTF-8 text; the first: train.en:17: ..."; empty for none.
  std::string description(std::string_view noun = "pair") const;
};

/// Reads pair by pair; only one is in memory. Bad pairs are refused with `file:line: ...`, or skipped and counted:
/// invalid UTF-8, blank lines, texts of too many words, files of different length, faulty records. Blank lines of texts
/// alone are always skipped.
class PairReader {
 public:
  PairReader(const PairFiles& files, const LineRules& rules);

  /// False at the end of the files.
  bool next(TextPair& pair);

  /// The number of the line that `next` gave last.
  std::int64_t number() const { return target().number(); }
  /// "columns 1, 2"; empty for files of lines.
  std::string fields() const { return target().description(); }
  const SkippedPairs& skipped() const { return skipped_; }

 private:
  void skip(const char* reason, const std::string& message, bool is_harmless = false);
  bool are_good(const std::vector<std::string>& texts);
  const RecordReader& target() const { return files_[files_.size() - 1 - has_alignment_]; }

  LineRules rules_;
  bool has_source_, has_alignment_;
  std::vector<RecordReader> files_;  ///< the source, if it has a file of its own, the target, the alignment
  SkippedPairs skipped_;
};

struct ParallelCorpusOptions {
  std::string data;  ///< a directory, or one file of texts alone or of records
  std::string source,
      target;           ///< how the names of the files end: "en", "de"; or fields of records; no source: texts alone
  std::string columns;  ///< records: "1,2" or "source,target", in the place of source and target
  Header header = Header::automatic;
  bool needs_source = false;                 ///< true: texts alone are refused
  std::string train_set, dev_set, test_set;  ///< names without the language; empty: found by their names
  LineRules lines;
  bool needs_training_set = true;  ///< false: a directory of other parts alone will do

  /// Declares --source, --target, --columns, --header, --train-set, --dev-set, --test-set, --bad-lines and --max-words;
  /// --data is the program's own flag.
  void add_to(Cli& cli);
};

/// The files `SET.LANGUAGE` of a directory, also with .txt or .gz behind it or both; texts alone need no language:
/// train.txt, wiki.valid.tokens. `choose_sets` (file_sets.h) says which set is which part; --test-set may name several,
/// with commas. `SET.align` has gold alignments. A part without files is split off the training pairs by a hash of the
/// source (10 % each).
///
/// Sets may also be files of records, train.jsonl, train.tsv or train.csv: pairs are two of their fields, texts alone
/// one.
///
/// Or one file. If it is called a training file, the development and test file beside it are read too. Otherwise it is
/// split: pairs by hash; of texts alone the last tenth of the lines is the test part, the tenth before it the
/// development part.
class ParallelCorpus : public PairSource {
 public:
  /// Throws Error where a needed training file is missing, a file has no partner, or several sets could be a part.
  /// Reads a single file of texts once, to count its lines.
  explicit ParallelCorpus(const ParallelCorpusOptions& options);

  void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const override;
  std::string description() const override;
  std::vector<std::string> tests() const override;
  /// "train: 3 pairs skipped: ...", a part after the other.
  std::string left_out() const override;

 private:
  std::vector<std::string> fields_of(const std::filesystem::path& file) const;
  FileSets targets_in(const std::filesystem::path& directory) const;
  static std::string partner(const std::filesystem::path& file, const std::string& set, const std::string& language,
                             const std::string& other);
  void require_targets(const FileSets& targets, const ChosenSets& chosen, const std::filesystem::path& directory);
  RecordFormat format_of(const std::filesystem::path& file) const;
  void choose_files(const FileSets& targets, const std::filesystem::path& directory, const std::string& train_set);
  Part part_of(const TextPair& pair, std::int64_t line) const;

  struct Set {
    std::string name;  ///< "train"; of a test set as --test-set has it
    PairFiles files;   ///< empty: the set is split off the training set
    mutable SkippedPairs skipped = {};
  };
  ParallelCorpusOptions options_;
  std::vector<Set> sets_;            ///< train, dev, and the test sets
  std::vector<std::string> unused_;  ///< names of files that look like a part of the data but are not used
  std::string fields_;               ///< of records: "columns 1, 2"
  std::int64_t lines_ = 0;           ///< of the one file; 0 for a directory
};

}  // namespace fovea
