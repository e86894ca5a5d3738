// Writes the texts of `--data generated` as plain files, in the layouts that the programs read: texts, gold alignments,
// labels. Training on the files is the same as training on `--data generated` with the same options.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "experiments/support/data/generated.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

/// The name of a file, and a line of it.
using Line = std::pair<std::string, std::string>;

/// One command: which texts are generated, and how files are made of them.
struct Generated {
  std::string name, description, about;
  std::unique_ptr<PairSource> (*generate)(std::string_view specification);
  std::function<std::vector<Line>(const std::string& part, const TextPair& pair)> lines;
  std::string program, flags;  ///< what trains on the files
  std::string header = "";     ///< the first line of each file
  bool can_spell = false;
};

/// A file for each of these texts of the pairs: "train.source".
auto files_of(std::vector<std::pair<std::string, std::string TextPair::*>> texts) {
  return [=](const std::string& part, const TextPair& pair) {
    std::vector<Line> lines;
    for (const auto& [ending, text] : texts) lines.emplace_back(part + "." + ending, pair.*text);
    return lines;
  };
}

struct GenerateOptions {
  fs::path out;
  std::string data = "generated";
  std::optional<int> train, dev, test, seed;
  bool overwrite = false, characters = false;

  void add_to(Cli& cli) {
    cli.option("--out", out, "the directory for the files, which is made if it does not exist").required();
    cli.option("--data", data,
               "generated or generated:name=value,...: the options of the grammar, as in --data of the "
               "programs that train");
    cli.option("--train", train, "number of training texts").at_least(1);
    cli.option("--dev", dev, "number of development texts").at_least(1);
    cli.option("--test", test, "number of test texts").at_least(1);
    cli.option("--seed", seed, "seed of the generator").at_least(0);
    cli.option("--overwrite", overwrite, "replace files that exist; without it they are refused");
  }

  /// The value of --data that stands for all flags together.
  std::string specification() const {
    require(is_generated(data), "--data: '{}': expected generated, or generated:name=value,...", data);
    std::string all = data;
    for (const auto& [name, value] : {std::pair("train", train), {"dev", dev}, {"test", test}, {"seed", seed}})
      if (value) {
        for (const char* sign : {":", ","})
          require(data.find(fmt::format("{}{}=", sign, name)) == data.npos,
                  "--{0} {1}: --data has {0}= already; leave one of them out", name, *value);
        all += fmt::format("{}{}={}", all.find(':') == all.npos ? ":" : all.ends_with(':') ? "" : ",", name, *value);
      }
    return all;
  }
};

// ---- Spelt-out pairs

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
    const auto s = std::size_t(link.source), t = std::size_t(link.target);
    for (std::int64_t i = source[s]; i < source[s + 1] - 1; ++i)
      for (std::int64_t j = target[t]; j < target[t + 1] - 1; ++j)
        append_word(characters.alignment, fmt::format("{}?{}", i, j));
  }
  return characters;
}

// ---- The commands

std::unique_ptr<PairSource> all_of_agreement(std::string_view specification) {
  return generate_agreement(specification, false);
}

std::vector<Line> agreement_lines(const std::string& part, const TextPair& pair) {
  const bool is_singular = pair.target == "singular";
  const std::string line =
      fmt::format("{} {}\t{}\t{}\t{}\t{}", pair.source, is_singular ? "is" : "are", split_words(pair.source).size(),
                  is_singular ? "SING" : "PLUR", pair.nouns_between, pair.group);
  std::vector<Line> lines{{"sva_" + part + ".tsv", line}};
  if (part == "test" && pair.is_hard) lines.emplace_back("sva_hard.tsv", line);
  return lines;
}

std::vector<Line> sentiment_lines(const std::string& part, const TextPair& pair) {
  return {{part + ".tsv", pair.source + "\t" + pair.target}};
}

const Generated all_generated[] = {
    {"mt", "sentences, translations and gold alignments, for translate",
     "Sentences of phrases, their translations and gold alignments: train.source, train.target, train.align, and the "
     "same of dev and test.",
     generate_translation,
     files_of({{"source", &TextPair::source}, {"target", &TextPair::target}, {"align", &TextPair::alignment}}),
     "translate", " --source source --target target", "", true},
    {"sva", "sentences with the number of their verb, for agreement",
     "Sentences up to the verb, and the verb's number: sva_train.tsv, sva_dev.tsv, sva_test.tsv; sva_hard.tsv has "
     "those "
     "test sentences with no noun between subject and verb, or with attractors only.",
     all_of_agreement, agreement_lines, "agreement", "", "sentence\tverb_idx\tlabel\tn_intervening\tn_attractors\n"},
    {"sent", "texts with a sentiment, for sentiment",
     "Texts of positive, negative and neutral words with their sentiment: train.tsv, dev.tsv, test.tsv. --data "
     "generated:length=150-400 makes them as long as IMDB's reviews.",
     generate_sentiment, sentiment_lines, "sentiment", "", "sentence\tlabel\n"},
    {"lm", "lines of text, for language_model", "Lines of text for language models: train.txt, dev.txt, test.txt.",
     generate_lines, files_of({{"txt", &TextPair::target}}), "language_model", ""},
    {"sum", "articles and headlines, for summarize",
     "Articles and their headlines: train.article, train.headline, and the same of dev and test.", generate_summaries,
     files_of({{"article", &TextPair::source}, {"headline", &TextPair::target}}), "summarize",
     " --source article --target headline"}};

/// Writes the files into --out and prints them, with a command that trains on them. Throws Error, before anything is
/// written, for the first file that exists, unless --overwrite is given.
void write(const Generated& made, Cli& cli) {
  GenerateOptions options;
  cli.describe(made.about);
  cli.add(options);
  if (made.can_spell)
    cli.option("--characters", options.characters,
               "spell the words out: characters with spaces between them, ▁ between words");
  cli.parse();
  const fs::path& out = options.out;
  const std::unique_ptr<PairSource> pairs = made.generate(options.specification());
  std::map<std::string, std::string> files;
  for (const Part part : all_parts)
    pairs->visit(part, [&](const TextPair& pair) {
      for (const auto& [name, line] : made.lines(name_of(part), options.characters ? spelt_out(pair) : pair))
        files.emplace(name, made.header).first->second += line + "\n";
    });
  for (const auto& [name, text] : files)
    require(options.overwrite || !fs::exists(fs::symlink_status(out / name)),
            "{}: the file exists; give --overwrite to replace it, or another --out", (out / name).string());
  std::error_code error;
  fs::create_directories(out, error);
  require(!error && fs::is_directory(out), "--out {}: the directory cannot be made: {}", out.string(),
          error ? error.message() : "a file has this name");
  for (const auto& [name, text] : files) {
    write_file_atomically(out / name, text);
    fmt::print("{}: {} lines\n", (out / name).string(), std::ranges::count(text, '\n'));
  }
  fmt::print("{} --data {}{}\n", made.program, quoted_for_shell(out.string()), made.flags);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Command> commands;
  for (const Generated& made : all_generated)
    commands.push_back({made.name, made.description, [&made](Cli& cli) { write(made, cli); }});
  return run("generate", argc, argv, commands);
}
