/// Pictures of a trained model's attentions for a few sentences.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/record/record.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/report/html.h"
#include "nn/attention.h"

namespace fovea {

/// Chooses at most `count` examples for pictures. Prefers lengths (in tokens) that fit a small map, then large groups
/// (many attractors). If the examples have classes, takes one of each class in turn.
std::vector<std::size_t> examples_to_show(const std::vector<TestedExample>& examples,
                                          std::span<const std::int64_t> lengths, std::size_t count);

/// Removes a leading ▁; a lone ▁ becomes a space.
std::string picture_label(const std::string& token);
std::vector<std::string> picture_labels(std::vector<std::string> tokens);

/// Attention number `shown`. If its method computes no quantities, also the first attention whose method does.
std::vector<const AttentionTrace*> attentions_to_show(const std::vector<const AttentionTrace*>& traces,
                                                      std::size_t shown);

/// The pictures of one sentence.
struct SentencePictures {
  std::vector<HeadMaps> maps;     ///< the weights, with the method's centre and width drawn in; then its matrices
  std::vector<LineChart> curves;  ///< the method's other quantities, by query
};

/// The maps of a quantity of pairs, and the curves over the queries of another one, for these heads, counted from 1.
/// Centers (or the focus) and widths are drawn into maps of the weights.
HeadMaps head_maps(const AttentionView& view, const ViewedQuantity& quantity, const std::vector<std::int64_t>& heads);
LineChart head_curves(const AttentionView& view, const ViewedQuantity& quantity,
                      const std::vector<std::int64_t>& heads);

/// Pictures of the first sentence of a trace, with a word for each query and key; long sentences are cut. Titles begin
/// with `place`, such as "decoder, layer 1", unless it is empty.
SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys);

/// One sentence with its pictures.
struct ShownSentence {
  std::string text;
  SentencePictures pictures;
};

/// Writes a run's pictures.json: sentences and their drawings, for the report of its comparison.
void save_pictures(const std::filesystem::path& run, const std::vector<ShownSentence>& sentences);

/// Adds a section with the pictures of several runs: of each run as many sentences as there is room for, at least one.
/// Leaves out runs without pictures, and says so.
struct PicturedRun {
  std::string title, note;
  std::filesystem::path directory;
};
void add_attention_section(Report& report, const std::vector<PicturedRun>& runs);

}  // namespace fovea
