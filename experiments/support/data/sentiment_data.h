/// The texts of `sentiment`: the Stanford Sentiment Treebank, IMDB, any table of sentences and labels, generated text.
#pragma once
#include <cstdint>
#include <string>

#include "experiments/support/data/classification.h"
#include "experiments/support/data/records.h"

namespace fovea {

class Cli;

/// How the file or directory behind --data is laid out.
enum class SentimentFormat {
  automatic,  ///< decided from the path and the first line
  trees,      ///< SST: one tree with labels 0-4 on every node a line, `(3 (2 The) (4 ...))`
  lines,      ///< SST: `label ||| sentence`, labels 0-4
  table,      ///< a sentence and a label as columns of .tsv or .csv or as keys of .jsonl; other endings: .tsv
  imdb        ///< {train,test}/{pos,neg}/*.txt, or tables with the columns label, subset, text
};

enum class Phrases {
  all,       ///< SST trees: train on the phrase of every node, each phrase once; dev and test are whole sentences
  sentences  ///< whole sentences only
};

/// Values of SentimentOptions::columns; others are the columns of text and label: "1,2", "sentence,label".
inline constexpr const char *automatic_columns = "auto", *text_before_label = "text-label",
                            *label_before_text = "label-text";

struct SentimentOptions : ExampleLimits {
  std::string data =
      "generated";  ///< a file, a directory, or generated[:options] (experiments/support/data/generated.h)
  SentimentFormat format = SentimentFormat::automatic;
  int classes = 0;                 ///< 2 or 5 for SST (0: 2, neutral dropped); others: what it must be (0: any)
  Phrases phrases = Phrases::all;  ///< SST trees only
  std::string columns = automatic_columns;  ///< tables only: which columns, or JSON keys, are text and label
  Header header = Header::automatic;        ///< tables only: does the first line name the columns
};

/// Declares --data, --format, --classes, --phrases, --columns, --header, --train-examples, --test-examples.
void add_options(Cli& cli, SentimentOptions& options);

/// Reads the data set. Where dev or test files are missing, they are split off (split_off_missing_parts).
/// PTB escapes (`\/`, `-LRB-`) and IMDB's `<br />` are undone.
/// Throws Error with file and line; where there is no data set, with the names that were looked for and those found.
ClassificationData load(const SentimentOptions& options);

}  // namespace fovea
