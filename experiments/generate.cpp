// Writes the texts of `--data generated` as plain files, in the layouts that the programs read: texts, gold alignments,
// labels. Training on the files is the same as training on `--data generated` with the same options.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// The flags that all grammars have.
struct GenerateOptions {
  std::filesystem::path out;
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

/// Files of one directory. They are put there together, after all of them are complete.
class Files {
 public:
  /// `names` are those of all files that may be written. Throws Error, before anything is written, for the first that
  /// exists, unless --overwrite is given.
  Files(const GenerateOptions& options, const std::vector<std::string>& names) : directory_(options.out) {
    for (const std::string& name : names)
      require(options.overwrite || !std::filesystem::exists(std::filesystem::symlink_status(directory_ / name)),
              "{}: the file exists; give --overwrite to replace it, or another --out", (directory_ / name).string());
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    require(!error && std::filesystem::is_directory(directory_), "--out {}: the directory cannot be made: {}",
            directory_.string(), error ? error.message() : "a file has this name");
  }

  void write_line(const std::string& name, const std::string& line) {
    std::unique_ptr<File>& file = files_[name];
    if (!file) file = std::make_unique<File>(directory_ / name);
    file->bytes.write(line + "\n");
    ++file->lines;
  }

  /// Puts the files in their places and prints them, with a command that trains on them: `program` with `flags`.
  void commit(const std::string& program, const std::string& flags = "") {
    for (auto& [name, file] : files_) file->bytes.commit();
    for (auto& [name, file] : files_) fmt::print("{}: {} lines\n", (directory_ / name).string(), file->lines);
    fmt::print("{} --data {}{}{}\n", program, quoted_for_shell(directory_.string()), flags.empty() ? "" : " ", flags);
  }

 private:
  struct File {
    explicit File(const std::filesystem::path& path) : bytes(path) {}
    AtomicFile bytes;
    std::int64_t lines = 0;
  };
  std::filesystem::path directory_;
  std::map<std::string, std::unique_ptr<File>> files_;
};

constexpr Part all_parts[] = {Part::train, Part::dev, Part::test};

/// train.ENDING, dev.ENDING and test.ENDING for each of the endings.
std::vector<std::string> names_of_parts(const std::vector<std::string>& endings) {
  std::vector<std::string> names;
  for (Part part : all_parts)
    for (const std::string& ending : endings) names.push_back(name_of(part) + ("." + ending));
  return names;
}

// ---- Pairs: a file for each side, SET.SIDE, and SET.align

/// The names of the two sides; an empty source: the texts have none, and their file is SET.txt.
struct Sides {
  std::string source, target;
};

void write_pair(Files& files, const std::string& set, const TextPair& pair, const Sides& sides) {
  if (!sides.source.empty()) files.write_line(set + "." + sides.source, pair.source);
  files.write_line(set + "." + sides.target, pair.target);
  if (!pair.alignment.empty()) files.write_line(set + ".align", pair.alignment);
}

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

void write_pairs(const GenerateOptions& options, const PairSource& pairs, const Sides& sides, bool characters,
                 const std::string& program) {
  const bool are_two = !sides.source.empty();
  Files files(options, names_of_parts(are_two ? std::vector{sides.source, sides.target, std::string("align")}
                                              : std::vector{sides.target}));
  for (Part part : all_parts)
    pairs.visit(part, [&](const TextPair& pair) {
      write_pair(files, name_of(part), characters ? spelt_out(pair) : pair, sides);
    });
  files.commit(program, are_two ? fmt::format("--source {} --target {}", sides.source, sides.target) : "");
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
  write_pairs(options, *generate_translation(options.specification()), {"source", "target"}, characters, "translate");
}

void generate_sum(Cli& cli) {
  GenerateOptions options;
  cli.describe("Articles and their headlines: train.article, train.headline, and the same of dev and test.");
  options.add_to(cli, true);
  cli.parse();
  write_pairs(options, *generate_summaries(options.specification()), {"article", "headline"}, false, "summarize");
}

void generate_lm(Cli& cli) {
  GenerateOptions options;
  cli.describe("Lines of text for language models: train.txt, dev.txt, test.txt.");
  options.add_to(cli, true);
  cli.parse();
  write_pairs(options, *generate_lines(options.specification()), {"", "txt"}, false, "language_model");
}

// ---- Texts with labels: tables with a header

void generate_sent(Cli& cli) {
  GenerateOptions options;
  bool is_long = false;
  cli.describe("Texts of positive, negative and neutral words with their sentiment: train.tsv, dev.tsv, test.tsv.");
  options.add_to(cli, true);
  cli.option("--long", is_long, "texts of 150 to 400 words, like IMDB's reviews, instead of 10 to 20");
  cli.parse();
  const ClassificationData data = generate_sentiment(options.specification(is_long ? "length=150-400" : ""));
  Files files(options, names_of_parts({"tsv"}));
  for (auto [name, part] : {std::pair("train", &data.train), {"dev", &data.dev}, {"test", &data.test}}) {
    files.write_line(std::string(name) + ".tsv", "sentence\tlabel");
    for (const Example& example : *part)
      files.write_line(std::string(name) + ".tsv",
                       example.text + "\t" + data.classes[static_cast<std::size_t>(example.label)]);
  }
  files.commit("sentiment");
}

void write_agreement(Files& files, const std::string& name, const std::vector<Example>& examples) {
  files.write_line(name, "sentence\tverb_idx\tlabel\tn_intervening\tn_attractors");
  for (const Example& example : examples)
    files.write_line(name, fmt::format("{} {}\t{}\t{}\t{}\t{}", example.text, example.label == 0 ? "is" : "are",
                                       split_words(example.text).size(), example.label == 0 ? "SING" : "PLUR",
                                       example.nouns_between, example.group));
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
  std::vector<Example> hard;
  for (const Example& example : data.test)
    if (is_hard(example)) hard.push_back(example);
  Files files(options, {"sva_train.tsv", "sva_dev.tsv", "sva_test.tsv", "sva_hard.tsv"});
  write_agreement(files, "sva_train.tsv", data.train);
  write_agreement(files, "sva_dev.tsv", data.dev);
  write_agreement(files, "sva_test.tsv", data.test);
  write_agreement(files, "sva_hard.tsv", hard);
  files.commit("agreement");
}

}  // namespace

int main(int argc, char** argv) {
  return run("generate", argc, argv,
             {{"mt", "sentences, translations and gold alignments, for translate", generate_mt},
              {"sva", "sentences with the number of their verb, for agreement", generate_sva},
              {"sent", "texts with a sentiment, for sentiment", generate_sent},
              {"lm", "lines of text, for language_model", generate_lm},
              {"sum", "articles and headlines, for summarize", generate_sum}});
}
