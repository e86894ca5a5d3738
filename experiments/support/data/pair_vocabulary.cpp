#include "experiments/support/data/pair_vocabulary.h"

#include <vector>

#include "experiments/support/program/cli.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_bytes_of_a_side = 64'000'000;

std::vector<std::string_view> views_of(const TextSample& sample) {
  std::vector<std::string_view> views;
  for (const std::string& text : sample.texts())
    if (!text.empty()) views.push_back(text);
  return views;
}

}  // namespace

void add_options(Cli& cli, PairTextOptions& options) {
  add_options(cli, options.text);
  cli.rare("--joint-vocabulary", options.joint, "one vocabulary for source and target");
  cli.rare("--target-vocabulary-size", options.target_vocabulary_size,
           "the target's vocabulary size; 0: as --vocabulary-size")
      .at_least(0);
}

void TextSample::add(const std::string& text) {
  if (seen_++ % stride_ != 0) return;
  texts_.push_back(text);
  bytes_ += text.size();
  while (bytes_ > most_bytes_ && texts_.size() > 1) {
    stride_ *= 2;
    bytes_ = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < texts_.size(); i += 2) {
      if (i > 0) texts_[kept] = std::move(texts_[i]);
      bytes_ += texts_[kept++].size();
    }
    texts_.resize(kept);
  }
}

std::string PairTokenizers::description() const {
  if (joint()) return source->description();
  return fmt::format("source {}, target {}", source->description(), target->description());
}

void PairTokenizers::save(const fs::path& directory) const {
  if (joint()) return source->save(directory);
  for (const char* side : {"source", "target"}) fs::create_directories(directory / side);
  source->save(directory / "source");
  target->save(directory / "target");
}

PairTokenizers train_tokenizers(const PairSource& pairs, const PairTextOptions& options) {
  TextSample sources(most_bytes_of_a_side), targets(most_bytes_of_a_side);
  const bool is_labelled = !pairs.classes().empty();
  bool has_source = false;
  pairs.visit(Part::train, [&](const TextPair& pair) {
    has_source = has_source || !pair.source.empty();
    sources.add(pair.source);
    if (!is_labelled) targets.add(pair.target);
  });
  require(!sources.texts().empty(), "{}: there is no text to train on", pairs.description());
  const std::vector<std::string_view> of_source = views_of(sources), of_target = views_of(targets);
  if (options.joint || !has_source) {
    require(options.target_vocabulary_size == 0, "--target-vocabulary-size is for --no-joint-vocabulary");
    std::vector<std::string_view> all = of_source;
    all.insert(all.end(), of_target.begin(), of_target.end());
    const std::shared_ptr<const Tokenizer> both = train_tokenizer(options.text, all);
    return {.source = both, .target = both};
  }
  TextOptions target = options.text;
  if (options.target_vocabulary_size != 0) target.vocabulary_size = options.target_vocabulary_size;
  return {.source = train_tokenizer(options.text, of_source), .target = train_tokenizer(target, of_target)};
}

PairTokenizers load_tokenizers(const fs::path& directory) {
  std::error_code ignored;
  if (fs::exists(directory / "source" / "tokenizer.json", ignored)) {
    return {.source = load_tokenizer(directory / "source"), .target = load_tokenizer(directory / "target")};
  }
  const std::shared_ptr<const Tokenizer> both = load_tokenizer(directory);
  return {.source = both, .target = both};
}

}  // namespace fovea
