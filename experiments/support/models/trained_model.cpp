#include "experiments/support/models/trained_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include <fmt/core.h>
#include <unistd.h>

#include "autograd/scope_times.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/models/sequence_options.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/program/spent_time.h"
#include "experiments/support/report/table.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/warning.h"

namespace fovea {

void warn_of_training_flags(const Cli& cli, bool evaluates) {
  std::vector<std::string> unused;
  const auto look_at = [&](std::initializer_list<const char*> flags) {
    for (const char* flag : flags)
      if (cli.given(flag) && cli.origin_of(flag).empty()) unused.emplace_back(flag);
  };
  look_at({"--updates", "--schedule", "--rate", "--clip", "--optimizer", "--evaluate-every", "--patience", "--average",
           "--keep", "--init", "--label-smoothing", "--units", "--vocabulary-size", "--target-vocabulary-size",
           "--min-count"});
  if (!evaluates) look_at({"--compare", "--search", "--seeds", "--data", "--metrics", "--select", "--jobs", "--only"});
  warn_without_effect(unused, "nothing is trained");
}

void TrainedModelOptions::add_to(Cli& cli, bool translates) {
  translates_ = translates;
  cli.option("--model", directory, "the directory of a trained run; its flags hold, except for those that are given")
      .configures();
  cli.rare("--average-kept", average, "use the mean of this many last kept models of --model (--keep); 0: its best one")
      .range(0, 1000);
  cli.option("--evaluate", evaluated,
             "test --model on this part of --data; other flags of data, text and model may be given (threshold=1.2 of "
             "its attention, for example), and --compare")
      .one_of({"train", "dev", "test"});
  cli.rare("--json", json, "print the results of --evaluate or --force as a JSON object for each row");
  if (!translates) {
    cli.option("--sample", samples, "print this many texts that --model makes up, drawn with --seed").range(0, 1e9);
    cli.option("--prompt", prompt, "the beginning of each text; -: each line of standard input");
    cli.rare("--temperature", sampling.temperature, "divides the logits; below 1, probable tokens are drawn more often")
        .range(1e-3, 1e3);
    cli.rare("--top-k", sampling.top_k, "draw from this many of the most probable tokens; 0: from all").at_least(0);
    cli.rare("--top-p", sampling.top_p, "draw from the fewest tokens whose probabilities sum to this").range(1e-6, 1);
    cli.rare("--min-length", sampling.min_length, "fewest tokens of a text").range(0, 1e6);
    cli.rare("--longest", sampling.max_length, "most tokens of a text").range(1, 1e6);
    return;
  }
  cli.option("--decode", decoded, "decode the lines of this file with --model; - is standard input");
  cli.rare("--force", forced,
           "with --decode: score the lines of this file instead, as translations of the lines of --decode; prints "
           "log p and number of tokens of each line, the speed, and the source tokens that a step scores");
  cli.rare("--profile", profile, "with --decode: print the processor time of each part of the model");
  cli.rare("--n-best", n_best, "print this many texts for each line, with their scores").range(1, 1000);
  cli.rare("--alignments", alignments,
           "with --decode: write the links i-j of each text to this file; word j of the text looks most at word i of "
           "the source");
}

Use TrainedModelOptions::use(const Cli& cli) const {
  auto belongs = [&](const char* flag, bool is_there, const char* to) {
    require(!cli.given(flag) || is_there, "{}: only with {}", flag, to);
  };
  const bool evaluates = cli.given("--evaluate"), decodes = cli.given("--decode"), draws = cli.given("--sample");
  const char* flag = evaluates ? "--evaluate" : decodes ? "--decode" : "--sample";
  require(!(evaluates && (decodes || draws)), "--evaluate and {}: give only one of them",
          decodes ? "--decode" : "--sample");
  if (translates_) {
    belongs("--force", decodes, "--decode, which has the sources");
    belongs("--json", evaluates || cli.given("--force"), "--evaluate or --force");
    belongs("--alignments", decodes, "--decode");
    belongs("--profile", decodes, "--decode");
    belongs("--n-best", decodes && !cli.given("--force"), "--decode without --force");
  } else {
    belongs("--json", evaluates, "--evaluate");
    for (const char* own : {"--prompt", "--temperature", "--top-k", "--top-p", "--min-length", "--longest"})
      belongs(own, draws, "--sample");
  }
  const bool is_asked = evaluates || decodes || draws;
  require(!is_asked || !directory.empty(), "{}: needs --model, the directory of a trained run", flag);
  belongs("--average-kept", is_asked, "--model");
  for (const char* own : {"--out", "--spread"}) belongs(own, !decodes && !draws, "training or --evaluate");
  require(is_asked || directory.empty(),
          "--model: only with --evaluate or {}; to continue training from a model, use --init",
          translates_ ? "--decode" : "--sample");
  if (is_asked) warn_of_training_flags(cli, evaluates);
  return evaluates ? Use::evaluation : decodes ? Use::decoding : draws ? Use::sampling : Use::training;
}

Part TrainedModelOptions::part() const {
  return evaluated == "train" ? Part::train : evaluated == "dev" ? Part::dev : Part::test;
}

namespace {

/// Sums over all decoded lines.
struct Sums {
  std::int64_t sentences = 0, tokens = 0, source_tokens = 0;
  SpentTime time;
  double log_probability = 0;
  double window = 0;                                  ///< the sum of each sentence's mean
  std::map<std::string, ScopeTimes::Sum> parts = {};  ///< with --profile: times inside each Scope
};

/// Prints the parts that take at least a hundredth of the time. The time of a part contains that of its own parts.
void print_profile(const Sums& sums) {
  Table table({"part", "calls", "CPU seconds", "share of decoding"});
  for (const auto& [name, sum] : sums.parts)
    if (sum.seconds >= 0.01 * sums.time.cpu)
      table.row(
          {name, sum.calls, Cell::number(sum.seconds, 3), fmt::format("{:.1f} %", 100 * sum.seconds / sums.time.cpu)});
  fmt::print(stderr, "\n{}", table.text());
}

void print_decoding(const Sums& sums) {
  fmt::print(stderr, "{} texts in {:.2f} s ({:.2f} s of CPU time): {:.2f} sentences/s\n", sums.sentences,
             sums.time.wall, sums.time.cpu, double(sums.sentences) / sums.time.wall);
}

void print_forced(const Sums& sums, bool json) {
  const auto sentences = double(sums.sentences), tokens = double(sums.tokens);
  const double source = double(sums.source_tokens) / sentences, per_token = sums.log_probability / tokens;
  if (json) {
    Json all = {{"sentences", sums.sentences},
                {"tokens", sums.tokens},
                {"log_probability", sums.log_probability},
                {"log_probability_per_token", per_token},
                {"perplexity", std::exp(-per_token)},
                {"seconds", sums.time.wall},
                {"cpu_seconds", sums.time.cpu},
                {"sentences_per_second", sentences / sums.time.wall},
                {"source_length", source},
                {"window", sums.window / sentences}};
    for (const auto& [name, sum] : sums.parts) all["cpu_seconds_of_parts"][name] = sum.seconds;
    return fmt::print("{}\n", text_of(all));
  }
  fmt::print(stderr,
             "{} texts of {} tokens: log p {:.3f}, {:.4f} a token, perplexity {}; {:.2f} s ({:.2f} s of CPU time), "
             "{:.2f} sentences/s; "
             "{:.2f} of {:.2f} source tokens scored in a step\n",
             sums.sentences, sums.tokens, sums.log_probability, per_token, rounded_text(std::exp(-per_token), 3),
             sums.time.wall, sums.time.cpu, sentences / sums.time.wall, sums.window / sentences, source);
}

class TextDecoder {
 public:
  TextDecoder(SequenceModel& model, const PairTokenizers& tokenizers, const SequenceOptions& options)
      : model_(model),
        tokenizers_(tokenizers),
        options_(options.trained),
        flags_(options.beam),
        longest_(options.data.text.max_length),
        positions_(options.model.positions_limit()),
        sources_(options_.decoded) {
    require(options_.decoded != "-" || options_.forced != "-",
            "--decode and --force: only one of them can be standard input ('-')");
    if (!options_.forced.empty()) targets_.emplace(options_.forced);
    is_typed_ = options_.decoded == "-" && ::isatty(STDIN_FILENO);
    flags_.beam.best = options_.n_best;
    flags_.beam.beam = std::max(flags_.beam.beam, options_.n_best);
    flags_.beam.alignments = !options_.alignments.empty();
    std::error_code missing;
    for (const auto& [flag, file] : {std::pair("--decode", options_.decoded), std::pair("--force", options_.forced)})
      require(!std::filesystem::equivalent(options_.alignments, file, missing),
              "--alignments {}: is the file of {}; it would be replaced", options_.alignments.string(), flag);
    if (!options_.alignments.empty()) links_.emplace(options_.alignments);
    has_windows_ = !options_.forced.empty() && has_source_windows(model);
  }

  void run() {
    for (Lines lines; !lines.are_last;) {
      lines = next_lines();
      targets_ ? force_lines(lines) : decode_lines(lines);
      std::fflush(stdout);
      if (lines.trouble) std::rethrow_exception(lines.trouble);
    }
    if (links_) links_->commit();
    require(!targets_ || sums_.sentences > 0, "{}: the file has no lines", options_.forced);
    if (sums_.sentences == 0) return;
    if (targets_)
      print_forced(sums_, options_.json);
    else if (!is_typed_)
      print_decoding(sums_);
    if (options_.profile) print_profile(sums_);
  }

 private:
  std::vector<int> read(const std::string& source) const { return tokens_of(*tokenizers_.source, source, longest_); }

  /// Consecutive lines of --decode and, if it is given, the lines of --force with the same numbers.
  struct Lines {
    std::vector<std::string> sources, targets;
    std::exception_ptr trouble;  ///< the error of the line after these
    bool are_last = false;
  };

  /// Reads up to 1000 lines; a single one from a terminal, so that each typed line is answered before the next.
  Lines next_lines() {
    Lines lines;
    const std::size_t at_once = is_typed_ ? 1 : 1000;
    try {
      for (std::string source, target; lines.sources.size() < at_once && !lines.are_last;) {
        lines.are_last = !next_line(source, target);
        if (lines.are_last) break;
        lines.sources.push_back(source);
        lines.targets.push_back(target);
      }
    } catch (const Error&) {
      lines.trouble = std::current_exception();
      lines.are_last = true;
    }
    return lines;
  }

  /// Throws Error for a line without a partner, and for a text with more tokens than learned positions.
  bool next_line(std::string& source, std::string& target) {
    const bool has_source = sources_.next(source);
    if (has_source && positions_ > 0) {
      const std::int64_t padded = decoded_length(std::ssize(read(source)) + 1);
      sources_.require_here(
          padded <= positions_,
          "{} tokens with </s> and padding, --max-positions is {}; set --max-length to cut longer texts", padded,
          positions_);
    }
    if (!targets_) return has_source;
    const bool has_target = targets_->next(target);
    if (has_source != has_target) {
      const LineReader &alone = has_source ? sources_ : *targets_, &ended = has_source ? *targets_ : sources_;
      alone.fail_here("a line without a partner: {} has {}", ended.name(),
                      counted(std::size_t(ended.number()), "line"));
    }
    if (has_target && positions_ > 0) {
      const std::int64_t tokens = std::ssize(tokenizers_.target->encode(target)) + 1;
      targets_->require_here(tokens <= positions_, "{} tokens with </s>, --max-positions is {}", tokens, positions_);
    }
    return has_source;
  }

  void decode_lines(const Lines& lines) {
    EncodedPairs pairs;
    for (const std::string& source : lines.sources)
      if (const std::vector<int> tokens = read(source); !tokens.empty()) pairs.append(tokens, {});
    const std::vector<DecodedText> all = timed([&] { return decode(model_, pairs, tokenizers_, flags_); });
    sums_.sentences += std::ssize(all);
    auto decoded = all.begin();
    for (const std::string& source : lines.sources)
      read(source).empty() ? print_blank() : print_texts(*decoded++, source);
    save_links();
  }

  /// The result of a source without words: an empty line, also among the links.
  void print_blank() {
    fmt::print("\n");
    lines_of_links_ += "\n";
  }

  void print_texts(const DecodedText& decoded, const std::string& source) {
    for (std::size_t rank = 0; rank < decoded.texts.size(); ++rank) {
      const Hypothesis& hypothesis = decoded.hypotheses[rank];
      if (options_.n_best > 1) fmt::print("{:.4f}\t", hypothesis.score);
      fmt::print("{}\n", decoded.texts[rank]);
      write_links(hypothesis, source, words_of_tokens(*tokenizers_.target, hypothesis.tokens));
    }
    if (options_.n_best > 1) fmt::print("\n");
  }

  void force_lines(const Lines& lines) {
    EncodedPairs pairs;
    for (std::size_t k = 0; k < lines.sources.size(); ++k)
      pairs.append(read(lines.sources[k]), tokenizers_.target->encode(lines.targets[k]));
    if (pairs.size() == 0) return;
    std::vector<Hypothesis> all = timed([&] { return force(model_, pairs, flags_); });
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::int64_t tokens = std::ssize(all[k].tokens) + 1;
      if (!options_.json) fmt::print("{:.4f}\t{}\n", all[k].log_probability, tokens);
      sums_.log_probability += all[k].log_probability;
      sums_.tokens += tokens;
      sums_.source_tokens += pairs.source.lengths()[k];
      if (!has_windows_) sums_.window += double(pairs.source.lengths()[k]);
      write_links(all[k], lines.sources[k], words_of_tokens(*tokenizers_.target, lines.targets[k]));
    }
    save_links();
    sums_.sentences += std::ssize(all);
    if (has_windows_) sums_.window += source_span(model_, pairs, flags_, true).average * double(all.size());
  }

  void write_links(const Hypothesis& hypothesis, const std::string& source, const std::vector<std::int64_t>& words) {
    if (!links_) return;
    lines_of_links_ +=
        alignment_text(word_links(hypothesis.alignment, words_of_tokens(*tokenizers_.source, source), words)) + "\n";
  }
  void save_links() {
    if (links_) links_->write(lines_of_links_);
    lines_of_links_.clear();
  }

  template <class Body>
  std::invoke_result_t<Body> timed(const Body& body) {
    std::optional<ScopeTimes> parts;
    if (options_.profile) parts.emplace();
    const SpentTime before = SpentTime::until_now();
    auto result = body();
    sums_.time = sums_.time + (SpentTime::until_now() - before);
    if (!parts) return result;
    for (const auto& [name, sum] : parts->sums()) {
      sums_.parts[name].seconds += sum.seconds;
      sums_.parts[name].calls += sum.calls;
    }
    return result;
  }

  SequenceModel& model_;
  const PairTokenizers& tokenizers_;
  const TrainedModelOptions& options_;
  BeamFlags flags_;
  std::int64_t longest_;    ///< the most tokens of a source, from its beginning; 0: all
  std::int64_t positions_;  ///< the most tokens of a text with padding and </s>; 0: any number
  LineReader sources_;
  std::optional<LineReader> targets_;
  bool is_typed_ = false;
  std::optional<AtomicFile> links_;
  std::string lines_of_links_;  ///< those of the present batch of lines, written together
  bool has_windows_ = false;
  Sums sums_;
};

}  // namespace

void decode_texts(const SequenceOptions& options) {
  require_trained(options.trained.directory);
  options.check();
  const PairTokenizers tokenizers = load_tokenizers(options.trained.directory);
  const std::unique_ptr<SequenceModel> model = options.load_model(tokenizers);
  TextDecoder(*model, tokenizers, options).run();
}

void sample_texts(const SequenceOptions& options) {
  require_trained(options.trained.directory);
  options.check();
  const PairTokenizers tokenizers = load_tokenizers(options.trained.directory);
  const Tokenizer& tokenizer = *tokenizers.target;
  const std::unique_ptr<SequenceModel> model = options.load_model(tokenizers);
  const TrainedModelOptions& trained = options.trained;
  SamplingOptions sampling = trained.sampling;
  sampling.seed = options.training.seed;
  sampling.never.push_back(unknown_id);
  const std::int64_t positions = options.model.positions_limit(),
                     most = positions > 0 ? positions - 1 : sampling.max_length;
  if (sampling.max_length > most)
    warn(fmt::format("texts end after {} tokens, not --longest {}: the model has {} learned positions, one for <s>",
                     most, sampling.max_length, positions));
  sampling.max_length = std::min(sampling.max_length, most);
  auto print_samples = [&](const std::string& prompt) {
    note_unknown_words("--prompt", prompt, tokenizer);
    const std::vector<int> begin = tokenizer.encode(prompt);
    require(positions == 0 || std::ssize(begin) <= most, "--prompt: {} tokens with <s>, --max-positions is {}",
            begin.size() + 1, positions);
    constexpr std::int64_t at_once = 100;
    for (std::int64_t done = 0; done < trained.samples; done += at_once) {
      DecodingBatch batch;
      batch.prefixes.assign(std::size_t(std::min(at_once, trained.samples - done)), begin);
      for (const Hypothesis& one : sample(*model, batch, sampling)) fmt::print("{}\n", tokenizer.decode(one.tokens));
      std::fflush(stdout);
      sampling.seed = mix_bits(sampling.seed + 1);  // the next batch draws other texts, those of no small seed
    }
  };
  if (trained.prompt != "-") return print_samples(trained.prompt);
  LineReader reader("-");
  for (std::string line; reader.next(line);) print_samples(line);
}

}  // namespace fovea
