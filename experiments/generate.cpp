// Writes the texts of `--data generated` as plain files, in the layouts that the programs read: texts, gold alignments,
// labels. Training on the files is the same as training on `--data generated` with the same options.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/generated_text.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

/// The flags that all grammars have.
struct GenerateOptions {
  fs::path out;
  std::string data = "generated";
  std::optional<int> train, dev, test;
  std::optional<int> seed;
  bool overwrite = false;

  void add_to(Cli& cli, bool has_parts) {
    cli.option("--out", out, "the directory for the files, which is made if it does not exist").required();
    cli.option("--data", data,
               "generated or generated:name=value,...: the options of the grammar, as in --data of the "
               "programs that train");
    if (has_parts) {
      cli.option("--train", train, "number of training texts").at_least(1);
      cli.option("--dev", dev, "number of development texts").at_least(1);
      cli.option("--test", test, "number of test texts").at_least(1);
    }
    cli.option("--seed", seed, "seed of the generator").at_least(0);
    cli.option("--overwrite", overwrite, "replace files that exist; without it they are refused");
  }

  /// The value of --data that stands for all flags together; `more` are further options.
  std::string specification(const std::string& more = "") const {
    require(is_generated(data), "--data: '{}': expected generated, or generated:name=value,...", data);
    std::string options = more;
    const auto add = [&](const char* name, const std::optional<int>& value) {
      if (value) options += fmt::format("{}{}={}", options.empty() ? "" : ",", name, *value);
    };
    add("train", train), add("dev", dev), add("test", test), add("seed", seed);
    if (options.empty()) return data;
    return data + (data.find(':') == std::string::npos ? ":" : data.ends_with(':') ? "" : ",") + options;
  }
};

/// The contents of files by their names.
using Contents = std::map<std::string, std::string>;

/// Writes the files into --out and prints them, with a command that trains on them. Throws Error, before anything is
/// written, for the first that exists, unless --overwrite is given.
void write(const GenerateOptions& options, const Contents& files, const std::string& program,
           const std::string& flags = "") {
  const fs::path& out = options.out;
  for (const auto& [name, text] : files)
    require(options.overwrite || !fs::exists(fs::symlink_status(out / name)),
            "{}: the file exists; give --overwrite to replace it, or another --out", (out / name).string());
  std::error_code error;
  fs::create_directories(out, error);
  require(!error && fs::is_directory(out), "--out {}: the directory cannot be made: {}", out.string(),
          error ? error.message() : "a file has this name");
  for (const auto& [name, text] : files) {
    write_file_atomically(out / name, text);
    fmt::print("{}: {} lines\n", (out / name).string(), std::count(text.begin(), text.end(), '\n'));
  }
  fmt::print("{} --data {}{}\n", program, quoted_for_shell(out.string()), flags);
}

// ---- Pairs: a file for each side, SET.SIDE, and SET.align

/// "ab c" as "a b ▁ c": the characters as words, with a sign between words. `first` gets the number of the first
/// character of each word, and after the last word the number of all characters and one.
std::string spelt_out(const std::string& text, std::vector<std::int64_t>& first) {
  std::string characters;
  std::int64_t count = 0;
  for (std::string_view word : split_words(text)) {
    if (count > 0) append_word(characters, "▁"), ++count;
    first.push_back(count);
    for (std::string_view character : split_characters(word)) append_word(characters, character), ++count;
  }
  first.push_back(count + 1);
  return characters;
}

/// The pair spelt out. Each character of a word gets a possible link to each character of the linked word.
TextPair spelt_out(const TextPair& pair) {
  std::vector<std::int64_t> source, target;
  TextPair characters{
      .source = spelt_out(pair.source, source), .target = spelt_out(pair.target, target), .alignment = {}};
  for (const Link& link : parse_alignment(pair.alignment).sure) {
    const auto s = static_cast<std::size_t>(link.source), t = static_cast<std::size_t>(link.target);
    for (std::int64_t i = source[s]; i < source[s + 1] - 1; ++i)
      for (std::int64_t j = target[t]; j < target[t + 1] - 1; ++j)
        append_word(characters.alignment, fmt::format("{}?{}", i, j));
  }
  return characters;
}

/// Writes all parts. Without a name of the source, texts have none.
void write_pairs(const GenerateOptions& options, const PairSource& pairs, const std::string& source,
                 const std::string& target, const std::string& program, bool characters = false) {
  Contents files;
  for (Part part : {Part::train, Part::dev, Part::test})
    pairs.visit(part, [&](const TextPair& words) {
      const TextPair pair = characters ? spelt_out(words) : words;
      const std::string set = name_of(part) + std::string(".");
      if (!source.empty()) files[set + source] += pair.source + "\n";
      files[set + target] += pair.target + "\n";
      if (!pair.alignment.empty()) files[set + "align"] += pair.alignment + "\n";
    });
  write(options, files, program, source.empty() ? "" : fmt::format(" --source {} --target {}", source, target));
}

void generate_mt(Cli& cli) {
  GenerateOptions options;
  bool characters = false;
  cli.describe(
      "Sentences of phrases, their translations and gold alignments: train.source, train.target, train.align, "
      "and the same of dev and test.");
  options.add_to(cli, true);
  cli.option("--characters", characters, "spell the words out: characters with spaces between them, ▁ between words")
      .also("--char");
  cli.parse();
  write_pairs(options, *generate_translation(options.specification()), "source", "target", "translate", characters);
}

/// The command for pairs, or texts alone, that need no flags of their own.
std::function<void(Cli&)> pairs_command(const char* about, std::unique_ptr<PairSource> (*generate)(std::string_view),
                                        const char* source, const char* target, const char* program) {
  return [=](Cli& cli) {
    GenerateOptions options;
    cli.describe(about);
    options.add_to(cli, true);
    cli.parse();
    write_pairs(options, *generate(options.specification()), source, target, program);
  };
}

// ---- Texts with labels: tables with a header

/// A table with a line for each example.
template <class Line>
std::string table_of(const std::string& header, const std::vector<Example>& examples, const Line& line) {
  std::string table = header + "\n";
  for (const Example& example : examples) table += line(example) + "\n";
  return table;
}

void generate_sent(Cli& cli) {
  GenerateOptions options;
  bool is_long = false;
  cli.describe("Texts of positive, negative and neutral words with their sentiment: train.tsv, dev.tsv, test.tsv.");
  options.add_to(cli, true);
  cli.option("--long", is_long, "texts of 150 to 400 words, like IMDB's reviews, instead of 10 to 20");
  cli.parse();
  const ClassificationData data = generate_sentiment(options.specification(is_long ? "length=150-400" : ""));
  auto table = [&](const std::vector<Example>& part) {
    return table_of("sentence\tlabel", part, [&](const Example& example) {
      return example.text + "\t" + data.classes[static_cast<std::size_t>(example.label)];
    });
  };
  write(options, {{"train.tsv", table(data.train)}, {"dev.tsv", table(data.dev)}, {"test.tsv", table(data.test)}},
        "sentiment");
}

void generate_sva(Cli& cli) {
  GenerateOptions options;
  std::int64_t examples = 20'000;
  cli.describe(
      "Sentences up to the verb, and the verb's number. 9 % of them are sva_train.tsv, 1 % sva_dev.tsv, 90 % "
      "sva_test.tsv; sva_hard.tsv has those test sentences with no noun between subject and verb, or with "
      "attractors only.");
  options.add_to(cli, false);
  cli.option("--examples", examples, "number of sentences of all parts together").range(100, 1e8);
  cli.parse();
  const std::int64_t train = examples * 9 / 100, dev = examples / 100;
  const ClassificationData data = generate_agreement(
      options.specification(fmt::format("train={},dev={},test={}", train, dev, examples - train - dev)), false);
  auto table = [](const std::vector<Example>& part) {
    return table_of("sentence\tverb_idx\tlabel\tn_intervening\tn_attractors", part, [](const Example& example) {
      return fmt::format("{} {}\t{}\t{}\t{}\t{}", example.text, example.label == 0 ? "is" : "are",
                         split_words(example.text).size(), example.label == 0 ? "SING" : "PLUR", example.nouns_between,
                         example.group);
    });
  };
  std::vector<Example> hard = data.test;
  std::erase_if(hard, [](const Example& example) { return !example.is_hard; });
  write(options,
        {{"sva_train.tsv", table(data.train)},
         {"sva_dev.tsv", table(data.dev)},
         {"sva_test.tsv", table(data.test)},
         {"sva_hard.tsv", table(hard)}},
        "agreement");
}

}  // namespace

int main(int argc, char** argv) {
  return run(
      "generate", argc, argv,
      {{"mt", "sentences, translations and gold alignments, for translate", generate_mt},
       {"sva", "sentences with the number of their verb, for agreement", generate_sva},
       {"sent", "texts with a sentiment, for sentiment", generate_sent},
       {"lm", "lines of text, for language_model",
        pairs_command("Lines of text for language models: train.txt, dev.txt, test.txt.", generate_lines, "", "txt",
                      "language_model")},
       {"sum", "articles and headlines, for summarize",
        pairs_command("Articles and their headlines: train.article, train.headline, and the same of dev and test.",
                      generate_summaries, "article", "headline", "summarize")}});
}
