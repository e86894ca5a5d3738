#include "experiments/support/classification/labelled_data.h"

#include <cstdio>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/training/same_data.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr const char* data_file = "data.json";

std::unique_ptr<Tokenizer> tokenizer_of(const TextOptions& options, const ClassificationData& data,
                                        const RunDirectory& directory) {
  if (std::filesystem::exists(directory.file(data_file))) return load_tokenizer(directory.path());
  std::vector<std::string_view> texts;
  for (const Example& example : data.train) texts.push_back(example.text);
  return train_tokenizer(options, texts);
}

}  // namespace

Json fingerprint_of(const std::vector<Example>& texts, const EncodedExamples& examples) {
  DataHash hash;
  for (std::size_t k = 0; k < examples.size(); ++k) {
    hash.add(texts[k].text);  // also words that are not in the vocabulary
    hash.add(examples.lengths[k]);
    for (int token : examples.tokens[k]) hash.add(std::int64_t{token});
    hash.add(std::int64_t{examples.labels[k]});
    hash.add(std::int64_t{examples.groups[k]});
  }
  return hash.part(examples.size());
}

LabelledData::LabelledData(ClassificationData all, const TextOptions& options, const RunDirectory& directory)
    : texts(std::move(all)), tokenizer(tokenizer_of(options, texts, directory)) {
  fmt::print("{}\n{}\n", description(), tokenizer->description());
  if (const std::string warning = overlap_warning(texts); !warning.empty()) fmt::print("warning: {}\n", warning);
  std::fflush(stdout);
  train = encode(texts.train, *tokenizer, options.max_length);
  dev = encode(texts.dev, *tokenizer, options.max_length);
  auto add_test = [&](const std::string& name, const std::vector<Example>& examples) {
    tests.push_back({name, examples, encode(examples, *tokenizer, options.max_length)});
  };
  add_test("test", texts.test);
  for (const ClassificationData::TestSet& more : texts.more_tests) {
    add_test(more.name, more.examples);
    fmt::print("{} more in the test set {}\n", more.examples.size(), more.name);
  }
  std::fflush(stdout);
  if (std::filesystem::exists(directory.file(data_file)))
    require_same_data(directory.file(data_file), fingerprint());
  else
    save(directory.path());
}

void LabelledData::save(const std::filesystem::path& directory) const {
  tokenizer->save(directory);
  save_json(directory / data_file, fingerprint());
}

void LabelledData::require_fitting(const BatchOptions& batches) const {
  auto check = [&](const char* part, const std::vector<Example>& examples, const EncodedExamples& encoded) {
    for (std::size_t k = 0; k < examples.size(); ++k) {
      if (fits(encoded.lengths[k], batches)) continue;
      constexpr std::size_t shown = 40;
      fail("--batch-tokens {}: a {} text has {} tokens; raise --batch-tokens or set --max-length ('{}')",
           batches.tokens, part, encoded.lengths[k], printable(shortened(examples[k].text, shown)));
    }
  };
  check("training", texts.train, train);
  check("development", texts.dev, dev);
  for (const TestSet& test : tests) check("test", test.texts, test.examples);
}

Json LabelledData::fingerprint() const {
  Json parts = {{"train", fingerprint_of(texts.train, train)}, {"dev", fingerprint_of(texts.dev, dev)}};
  for (const TestSet& test : tests)
    parts[test.name == "test" ? "test" : "test set " + test.name] = fingerprint_of(test.texts, test.examples);
  parts["classes"] = texts.classes;
  return parts;
}

std::vector<std::string> classes_of(const std::filesystem::path& run) {
  const std::filesystem::path file = run / data_file;
  const Json json = load_json(file);
  std::vector<std::string> classes;
  reading_json(file.string(), [&] { classes = json.at("classes"); });
  return classes;
}

}  // namespace fovea
