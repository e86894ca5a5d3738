/// The programs with sequence models in processes of their own, and small data and models for them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/generated_text.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_experiment.h"
#include "tests/files.h"

namespace fovea {

struct Ended {
  int status;
  std::string out, err;
};

/// What main() of the program does with these flags, after `input` on standard input, in a process of its own.
inline Ended ended(const SequenceProgram& program, const std::vector<std::string>& flags,
                   const std::string& input = "") {
  Folder folder;
  std::ofstream(folder / "in") << input;
  int status = status_in_child([&] {
    std::freopen((folder / "in").c_str(), "r", stdin);
    std::freopen((folder / "out").c_str(), "w", stdout);
    std::freopen((folder / "err").c_str(), "w", stderr);
    std::vector<const char*> arguments{program.name.c_str()};
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    int result = run_sequence_program(static_cast<int>(arguments.size()), arguments.data(), program);
    std::fflush(nullptr);
    return result;
  });
  return {status, contents(folder / "out"), contents(folder / "err")};
}

inline SequenceProgram translation() {
  return {.name = "translate", .metrics = {"bleu", "ribes"}, .generate = generate_translation};
}
inline SequenceProgram language_modelling() {
  return {.name = "language_model", .metrics = {}, .generate = generate_lines};
}

inline const std::string few_sentences = "generated:train=60,dev=10,test=12,phrases=1-2,words=4";

/// Flags of a small model and four updates.
inline std::vector<std::string> tiny(const std::string& out, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{
      "--model-dim", "8", "--heads",          "2", "--feed-forward-dim", "8", "--updates",   "4",
      "--layers",    "1", "--evaluate-every", "2", "--checkpoint-every", "1", "--min-count", "1",
      "--out",       out};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

inline SequenceData small_data(const PairTextOptions& text, const BatchOptions& batches) {
  auto pairs = generate_translation("generated:train=9,dev=5,test=5,phrases=1-2,words=4");
  SequenceData data{train_tokenizers(*pairs, text), {}, {}, {}, {}, {}};
  encode_parts(data, *pairs, {}, batches);
  return data;
}

/// A recurrent model.
inline std::unique_ptr<SequenceModel> small_model(const PairTokenizers& tokenizers, const std::string& attention,
                                                  double dropout = 0) {
  SequenceModelOptions options;
  options.architecture = Architecture::recurrent;
  options.attention = attention;
  options.layers = 1;
  options.dropout = dropout;
  options.model_dim = 4;
  options.embedding_dim = 5;
  options.readout_dim = 3;
  auto model = options.make(tokenizers.source->size(), tokenizers.target->size());
  model->initialise(3);
  return model;
}

}  // namespace fovea
