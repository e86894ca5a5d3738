/// The texts of `sentiment`: the Stanford Sentiment Treebank, IMDB, any table of texts and labels, generated text.
#pragma once
#include "experiments/support/data/labelled_texts.h"

namespace fovea {

enum class Phrases {
  all,       ///< SST trees: train on the phrase of every node, each phrase once; dev and test are whole sentences
  sentences  ///< whole sentences only
};

/// The value of SentimentOptions::columns that lets them be found; others are "1,2", "sentence,label".
inline constexpr const char* automatic_columns = "auto";

struct SentimentOptions : ExampleLimits {
  std::string data =
      "generated";  ///< a file, a directory, or generated[:options] (experiments/support/data/generated.h)
  int classes = 0;  ///< 2 or 5 for SST (0: 2, neutral dropped); others: what it must be (0: any)
  Phrases phrases = Phrases::all;           ///< SST trees only
  std::string columns = automatic_columns;  ///< tables only: which columns, or JSON keys, are text and label
  Header header = Header::automatic;        ///< tables only: does the first line name the columns
};

/// Declares --data, --classes, --phrases, --columns, --header, --train-examples, --test-examples, --also-test.
void add_options(Cli& cli, SentimentOptions& options);

/// Reads the data set; its layout is found out from the path and the first line. IMDB is read from its directories,
/// {train,test}/{pos,neg}/*.txt, and {val,dev}/{pos,neg} if there is one, or from tables whose labels 0 and 1 stand
/// beside a column `subset`. Throws Error with file and line; where there is no data set, with the names that were
/// looked for and those found.
LabelledTexts load(const SentimentOptions& options);

}  // namespace fovea
