/// The texts of `sentiment`: the Stanford Sentiment Treebank, IMDB, any table of texts and labels, generated text.
#pragma once
#include "experiments/support/data/labelled_texts.h"
#include "experiments/support/data/records.h"

namespace fovea {

enum class Phrases {
  all,       ///< SST: train on the phrase of every node, each phrase once; dev and test are whole sentences
  sentences  ///< whole sentences only
};

/// The value of SentimentOptions::columns that lets them be found; others are "1,2", "sentence,label".
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

}  // namespace fovea
