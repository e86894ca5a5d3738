/// The analyses of trained runs that `analyze` offers: distributions, tables and charts, each as one Finding.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/text_pairs.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/report/finding.h"

namespace fovea {

using Runs = std::vector<std::filesystem::path>;

/// The sentences that are read: the first `most` of a part; 0: all.
struct SentenceChoice {
  Part part = Part::test;
  std::int64_t most = 200;
};

/// The quantities of one attention that `what` names: the name of a quantity; pointers (both ends of a window), window
/// (window, window_factor, or the first and last key) or mask (mask, window, or the keys that are seen). Throws Error
/// and lists the known names.
std::vector<const ViewedQuantity*> quantities_of(const AttentionView& view, const std::string& what);

/// Maps, or curves over the queries, of some quantities of one attention. `head`: counted from 1; 0: their mean; empty:
/// all heads.
Finding attention_finding(const AttentionView& view, const std::string& what, std::optional<std::int64_t> head,
                          const std::string& sentence);

/// One row of an attention before and after its bias: energies, softmax without the bias, bias, revised weights. Yang
/// et al. 2018, figure 1. `head` from 1, 0: the means over the heads, also of the softmax; `query` from 0.
Finding row_finding(const AttentionView& view, std::int64_t head, std::int64_t query);

/// Centers P and widths D of every layer and head. Yang et al. 2018, figures 2 and 3.
Finding widths_finding(const Runs& runs, const SentenceChoice& sentences);

/// The percentage of attention within distances (in tokens) of the query's position, or in cross-attention: of the most
/// attended token, for all layers and attentions, and with `by_head` for all heads. Fan et al. 2021, table 5.
Finding mass_finding(const Runs& runs, const std::vector<int>& distances, bool by_head,
                     const SentenceChoice& sentences);

/// Quantities that an attention computes for each query of a sentence (decoding step): gate, focus, window, center; and
/// the means over the sentences. Shu & Nakayama 2017, figure 1 and appendix.
Finding steps_finding(const std::filesystem::path& run, std::int64_t sentence, const AttentionChoice& choice,
                      const SentenceChoice& sentences);

/// The attention over the source with the gold links, and alignment error rates. Luong et al. 2015, figure 7.
Finding alignment_finding(const Runs& runs, std::int64_t sentence, Part part);

/// The first metric by length of the input, in words. `ends`: the longest length of each bucket; one more bucket takes
/// longer inputs. The runs must be of one program and have the same first metric.
Finding length_finding(const Runs& runs, const std::vector<int>& ends);

/// Differences of n-gram scores to the first run, n = 1 to `longest`, between runs of one program that writes texts.
/// Yang et al. 2018, figure 4.
Finding ngram_finding(const Runs& runs, int longest);

/// Scores (`metrics`, or those of the training) and windows of one model for several values of an option of its
/// attention methods or of a flag of beam search: "threshold=0.3,1,inf". Shu & Nakayama 2017, figure 3.
Finding trade_off_finding(const std::filesystem::path& run, const std::string& vary, const std::vector<Part>& parts,
                          const std::string& metrics);

/// The mask matrices of self-attention, of the run's mask attention and of a feed-forward layer. Fan et al. 2021,
/// figure 1.
Finding masks_finding(const std::filesystem::path& run, std::int64_t sentence, Part part);

/// The model in words: the sub-layers of a layer, equations of its attentions, parameters. Fan et al. 2021, figure 2.
Finding model_finding(const std::filesystem::path& run);

/// The specification with the option set in every method that has it; empty if none has. Exposed for tests.
std::string with_option(const std::string& specification, const std::string& name, const std::string& value);

}  // namespace fovea
