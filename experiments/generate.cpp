// Writes the texts of `--data generated` as plain files, in the layouts that the programs read: texts, gold alignments,
// labels. Training on the files is the same as training on `--data generated` with the same options.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/grammar.h"
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

/// The name of a file, and a line of it.
using Line = std::pair<std::string, std::string>;

/// Writes the files into --out, each beginning with `header`, and prints them, with a command that trains on them. A
/// pair has the lines that `lines` says. Throws Error, before anything is written, for the first file that exists,
/// unless --overwrite is given.
void write(const GenerateOptions& options, const PairSource& pairs, const std::string& header,
           const std::function<std::vector<Line>(const std::string& part, const TextPair& pair)>& lines,
           const std::string& program, const std::string& flags = "") {
  const fs::path& out = options.out;
  std::map<std::string, std::string> files;
  for (const Part part : all_parts)
    pairs.visit(part, [&](const TextPair& pair) {
      for (const auto& [name, line] : lines(name_of(part), pair))
        files.emplace(name, header).first->second += line + "\n";
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

/// The command for pairs, or texts alone if `source` is empty.
std::function<void(Cli&)> pairs_command(const char* about, std::unique_ptr<PairSource> (*generate)(std::string_view),
                                        const std::string& source, const std::string& target, const char* program,
                                        bool can_spell = false) {
  return [=](Cli& cli) {
    GenerateOptions options;
    bool characters = false;
    cli.describe(about);
    options.add_to(cli, true);
    if (can_spell)
      cli.option("--characters", characters,
                 "spell the words out: characters with spaces between them, ▁ between words")
;
    cli.parse();
    const auto lines = [&](const std::string& set, const TextPair& words) {
      const TextPair pair = characters ? spelt_out(words) : words;
      std::vector<Line> lines{{set + "." + target, pair.target}};
      if (!source.empty()) lines.emplace_back(set + "." + source, pair.source);
      if (!pair.alignment.empty()) lines.emplace_back(set + ".align", pair.alignment);
      return lines;
    };
    write(options, *generate(options.specification()), "", lines, program,
          source.empty() ? "" : fmt::format(" --source {} --target {}", source, target));
  };
}

// ---- Texts with labels: tables with a header

void generate_sent(Cli& cli) {
  GenerateOptions options;
  bool is_long = false;
  cli.describe("Texts of positive, negative and neutral words with their sentiment: train.tsv, dev.tsv, test.tsv.");
  options.add_to(cli, true);
  cli.option("--long", is_long, "texts of 150 to 400 words, like IMDB's reviews, instead of 10 to 20");
  cli.parse();
  const auto lines = [](const std::string& part, const TextPair& pair) {
    return std::vector<Line>{{part + ".tsv", pair.source + "\t" + pair.target}};
  };
  write(options, generate_sentiment(options.specification(is_long ? "length=150-400" : "")), "sentence\tlabel\n", lines,
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
  const auto lines = [](const std::string& part, const TextPair& pair) {
    const bool is_singular = pair.target == "singular";
    const std::string line =
        fmt::format("{} {}\t{}\t{}\t{}\t{}", pair.source, is_singular ? "is" : "are", split_words(pair.source).size(),
                    is_singular ? "SING" : "PLUR", pair.nouns_between, pair.group);
    std::vector<Line> lines{{"sva_" + part + ".tsv", line}};
    if (part == "test" && pair.is_hard) lines.emplace_back("sva_hard.tsv", line);
    return lines;
  };
  const std::string sizes = fmt::format("train={},dev={},test={}", train, dev, examples - train - dev);
  write(options, generate_agreement(options.specification(sizes), false),
        "sentence\tverb_idx\tlabel\tn_intervening\tn_attractors\n", lines, "agreement");
}

}  // namespace

int main(int argc, char** argv) {
  return run(
      "generate", argc, argv,
      {{"mt", "sentences, translations and gold alignments, for translate",
        pairs_command("Sentences of phrases, their translations and gold alignments: train.source, train.target, "
                      "train.align, and the same of dev and test.",
                      generate_translation, "source", "target", "translate", true)},
       {"sva", "sentences with the number of their verb, for agreement", generate_sva},
       {"sent", "texts with a sentiment, for sentiment", generate_sent},
       {"lm", "lines of text, for language_model",
        pairs_command("Lines of text for language models: train.txt, dev.txt, test.txt.", generate_lines, "", "txt",
                      "language_model")},
       {"sum", "articles and headlines, for summarize",
        pairs_command("Articles and their headlines: train.article, train.headline, and the same of dev and test.",
                      generate_summaries, "article", "headline", "summarize")}});
}
