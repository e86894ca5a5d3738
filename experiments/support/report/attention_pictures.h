/// Where the attentions of a trained model look: pictures of a few sentences.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/report/html.h"
#include "experiments/support/training/record.h"
#include "nn/attention.h"

namespace fovea {

/// Examples worth a picture, at most `count`: of a length (in tokens) that fits a small map, a large group (many
/// attractors) before a small one, and, if the examples have classes, one of each class in turn.
std::vector<std::size_t> examples_to_show(const std::vector<TestedExample>& examples,
                                          std::span<const std::int64_t> lengths, std::size_t count);

/// The first layer, counted from 0, on which a method of the specification acts: what layers=FIRST-LAST says.
int first_layer_of(const std::string& attention);

/// What attentions computed for one sentence.
struct SentencePictures {
  std::vector<HeadMaps> maps;     ///< the weights, with a method's centre and width in them; then its matrices
  std::vector<LineChart> curves;  ///< a method's other numbers, by query
};

/// Pictures of the first sentence of a trace, with a word for each query and key; long sentences are cut. The titles
/// begin with `place` if there is one: "decoder, layer 1".
SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys);

/// One sentence with its pictures.
struct ShownSentence {
  std::string text;
  SentencePictures pictures;
};

/// Writes a run's pictures.json: sentences and their drawings, for the report of its comparison.
void save_pictures(const std::filesystem::path& run, const std::vector<ShownSentence>& sentences);

/// A section with the pictures of several runs: the first sentence of every run, then the second ones, and so on, as
/// long as they take less than `most_bytes`. Runs without pictures are left out.
struct PicturedRun {
  std::string title, note;
  std::filesystem::path directory;
};
void add_attention_section(Report& report, const std::vector<PicturedRun>& runs, std::size_t most_bytes);

}  // namespace fovea
