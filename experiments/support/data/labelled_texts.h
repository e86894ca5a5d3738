/// Labelled texts in memory, and the readers of sentiment and agreement: they find the files of the parts, split a
/// single file, limit the number of examples, and check them.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/data/records.h"
#include "experiments/support/data/text_pair.h"

namespace fovea {

class Cli;

/// Pairs of a text and its label.
class LabelledTexts : public PairSource {
 public:
  LabelledTexts() = default;
  /// All pairs of another source.
  explicit LabelledTexts(const PairSource& pairs);

  std::array<std::vector<TextPair>, 3> parts;
  std::vector<std::string> labels;  ///< in the order of their numbers
  std::string groups;               ///< what TextPair::group counts
  std::string source;               ///< one line: the files, and how they were read

  std::vector<TextPair>& operator[](Part part) { return parts[std::size_t(part)]; }
  const std::vector<TextPair>& operator[](Part part) const { return parts[std::size_t(part)]; }

  void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const override;
  /// The source, the sizes of the parts, and the labels.
  std::string description() const override;
  std::vector<std::string> classes() const override { return labels; }
  std::string group() const override { return groups; }
};

/// How much of a data set is used.
struct ExampleLimits {
  std::int64_t train_examples = 0;  ///< keep this many training examples, chosen by hash; 0: all
  std::int64_t test_examples = 0;   ///< the same for the test part
  bool hard_subset = false;         ///< test pairs that are not hard are left out; a flag of `agreement` alone

  /// Declares --train-examples and --test-examples.
  void add_to(Cli& cli);
};

// ---- The texts of `sentiment`: the Stanford Sentiment Treebank, IMDB, any table of texts and labels, generated text.

enum class Phrases {
  all,       ///< SST: train on the phrase of every node, each phrase once; dev and test are whole sentences
  sentences  ///< whole sentences only
};

/// The value of SentimentOptions::columns for which the reader finds the columns of text and label itself. Other values
/// give their numbers, from 1, or names: "1,2", "sentence,label".
inline constexpr const char* automatic_columns = "auto";

/// The names under which the columns, or keys, of texts and of labels are found.
extern const Role text_role, label_role;

struct SentimentOptions : ExampleLimits {
  std::string data =
      "generated";  ///< a file, a directory, or generated[:options] (experiments/support/data/generated.h)
  int classes = 0;  ///< 2 or 5 for SST (0: 2, neutral dropped); others: what it must be (0: any)
  Phrases phrases = Phrases::all;           ///< SST only
  std::string columns = automatic_columns;  ///< tables only: which columns, or JSON keys, are text and label
  Header header = Header::automatic;        ///< tables only: does the first line name the columns

  /// Declares --data, --classes, --phrases, --columns, --header, --train-examples, --test-examples.
  void add_to(Cli& cli);
};

/// Reads the data set; its layout is found out from the path and the first line:
///
///   {train,val,dev,test}/{pos,neg}/*.txt   IMDB's reviews, in the directory or in aclImdb/
///   (3 (2 The) (4 film))                   SST (Socher et al. 2013), in the directory or in trees/: a tree a line;
///                                          every node has a label 0-4: five classes, or two without the neutral texts
///   anything else                          tables, or JSON lines, of texts and labels
///
/// Labels of tables are any strings, of JSON also numbers, true and false; classes are those of the training file, in
/// the order of their numbers or bytes. A column `subset` says of the rows of the training file which are the
/// development part (val, dev), if that has no file of its own. Texts have one space between words, and for every `<br
/// />` of IMDB. Throws Error with file and line; where there is no data set, with the names that were looked for and
/// those found.
LabelledTexts load(const SentimentOptions& options);

// ---- The texts of `agreement`: the number of an English verb from the words before it.
/// Linzen, Dupoux & Goldberg 2016, "Assessing the Ability of LSTMs to Learn Syntax-Sensitive Dependencies".

struct AgreementOptions : ExampleLimits {
  std::string data =
      "generated";              ///< a file, a directory, or generated[:options] (experiments/support/data/generated.h)
  std::int64_t split_seed = 1;  ///< shuffles Linzen's single file before it is split

  /// Declares --data, --hard-subset, --split-seed, --train-examples, --test-examples.
  void add_to(Cli& cli);
};

/// Reads tab-separated files whose header names the columns, in two layouts, found out from the header:
/// - Linzen's `agr_50_mostcommon_10K.tsv`: sentence, verb_index (from 1), verb_pos (VBZ, VBP), n_intervening,
///   n_diff_intervening and others; fields may be quoted. One file: shuffled by split_seed, then 9 % train, 1 % dev,
///   the rest test, which are Tensor2Tensor's shares.
/// - `sva_{train,dev,test}.tsv`: sentence, verb_idx (from 0), label (SING, PLUR), n_attractors (-1: not known). Of one
///   file alone, 10 % dev and 10 % test are split off by hash.
/// The text is the words before the verb; classes are singular and plural; the group is the number of attractors, nouns
/// between subject and verb of the other number: 0-4, and -1 for unknown or more, as Linzen reports them.
///
/// hard_subset is Tensor2Tensor's filter, test examples with n_intervening == n_diff_intervening: no noun in between,
/// or attractors only. Files that only count attractors keep the test examples that have at least one. Throws Error
/// with file and line, or with what was looked for and what was found.
LabelledTexts load(const AgreementOptions& options);

}  // namespace fovea
