/// Pictures of a trained model's attentions for a few sentences.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/record/record.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/report/finding.h"
#include "nn/attention.h"

namespace fovea {

/// Chooses at most `count` examples for pictures. Prefers lengths (in tokens) that fit a small map, then large groups
/// (many attractors). If the examples have classes, one of each class comes first.
std::vector<std::size_t> examples_to_show(const std::vector<TestedExample>& examples,
                                          std::span<const std::int64_t> lengths, std::size_t count);

/// The name with spaces for underscores.
std::string spaced(std::string name);
/// Removes a leading ▁; a lone ▁ becomes a space.
std::string picture_label(const std::string& token);
std::vector<std::string> picture_labels(std::vector<std::string> tokens);

/// Attention number `shown`. If its method computes no quantities, also the first attention whose method does.
std::vector<const AttentionTrace*> attentions_to_show(const std::vector<const AttentionTrace*>& traces,
                                                      std::size_t shown);

/// The maps of a quantity of pairs, and the curves over the queries of another one, for these heads, counted from 1.
/// Centers (or the focus) and widths are drawn into maps of the weights.
HeadMaps head_maps(const AttentionView& view, const ViewedQuantity& quantity, const std::vector<std::int64_t>& heads);
LineChart head_curves(const AttentionView& view, const ViewedQuantity& quantity,
                      const std::vector<std::int64_t>& heads);

/// Pictures of an attention of one sentence: maps of the weights, with the method's centre and width drawn in, and of
/// its other matrices; then curves of what it computes for each query. Titles begin with `title`, such as "decoder,
/// layer 1". Of many heads the first are shown.
std::vector<Figure> pictures_of(const AttentionView& view, const std::string& title);
/// The same for the first sentence of a trace, with a word for each query and key; long sentences are cut.
std::vector<Figure> pictures_of(const AttentionTrace& trace, const std::string& title, std::vector<std::string> queries,
                                std::vector<std::string> keys);

/// One sentence with its pictures.
struct ShownSentence {
  std::string text;
  std::vector<Figure> figures;
};

/// Writes a run's pictures.json: sentences and their drawings, for the report of its comparison.
void save_pictures(const std::filesystem::path& run, const std::vector<ShownSentence>& sentences);

/// A section with the pictures of several runs: of each run as many as there is room for, at least one. Runs without
/// pictures are left out. Empty if no run has any.
struct PicturedRun {
  std::string title, note;
  std::filesystem::path directory;
};
std::optional<Finding> attention_section(const std::vector<PicturedRun>& runs);

}  // namespace fovea
