#include "experiments/support/report/attention_pictures.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "experiments/support/text/words.h"

namespace fovea {

namespace {

constexpr std::int64_t shortest_shown = 8, longest_shown = 16, most_heads = 8;
constexpr std::size_t most_tokens = 32;

/// The quantities that are drawn into the map of a head's weights; null: there is none.
struct Marks {
  const ViewedQuantity *center = nullptr, *width = nullptr;

  Marks(const AttentionView& view, std::int64_t head) {
    const auto find = [&](const char* name) {
      const ViewedQuantity* found = view.find(name, head);
      return found && !found->of_pairs ? found : nullptr;
    };
    center = find("center");
    if (!center) center = find("focus");
    if (center) width = find("width");
  }
};

/// The number of tokens by which a text is too short or too long for a small map; 0: it fits.
std::int64_t misfit_of_map(std::int64_t tokens) {
  return tokens < shortest_shown ? shortest_shown - tokens : std::max<std::int64_t>(tokens - longest_shown, 0);
}

}  // namespace

std::vector<std::size_t> examples_to_show(const std::vector<TestedExample>& examples,
                                          std::span<const std::int64_t> lengths, std::size_t count) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(misfit_of_map(lengths[a]), -examples[a].group) <
           std::pair(misfit_of_map(lengths[b]), -examples[b].group);
  });
  std::vector<std::size_t> chosen, others;  // of each class the first; then more
  std::set<std::string> texts, classes;
  for (std::size_t k : order) {
    const TestedExample& example = examples[k];
    if (!texts.insert(example.input + "\n" + example.reference).second) continue;
    const bool is_new = classes.insert(example.probabilities.empty() ? "" : example.reference).second;
    (is_new ? chosen : others).push_back(k);
  }
  chosen.insert(chosen.end(), others.begin(), others.end());
  chosen.resize(std::min(count, chosen.size()));
  return chosen;
}

std::string spaced(std::string name) { return std::ranges::replace(name, '_', ' '), name; }

std::string picture_label(const std::string& token) {
  constexpr std::string_view before_word = "▁";
  if (token == before_word) return "␣";
  return token.starts_with(before_word) ? token.substr(before_word.size()) : token;
}

std::vector<std::string> picture_labels(std::vector<std::string> tokens) {
  std::transform(tokens.begin(), tokens.end(), tokens.begin(), picture_label);
  return tokens;
}

std::vector<const AttentionTrace*> attentions_to_show(const std::vector<const AttentionTrace*>& traces,
                                                      std::size_t shown) {
  if (traces.empty()) return {};
  std::vector<const AttentionTrace*> all{traces.at(shown)};
  if (!all.front()->quantities.empty()) return all;
  auto other = std::ranges::find_if(traces, [](auto* trace) { return !trace->quantities.empty(); });
  if (other != traces.end()) all.push_back(*other);
  return all;
}

HeadMaps head_maps(const AttentionView& view, const ViewedQuantity& quantity, const std::vector<std::int64_t>& heads) {
  HeadMaps maps{
      .title = spaced(quantity.name), .queries = picture_labels(view.queries), .keys = picture_labels(view.keys)};
  for (std::int64_t h : heads) {
    HeadMaps::Head& head = maps.heads.emplace_back();
    head.name = head_name(h);
    head.values = view.head(quantity, h);
    if (&quantity != &view.quantities.front()) continue;
    const Marks marks(view, h);
    if (marks.center) head.center = view.head(*marks.center, h);
    if (marks.width) head.width = view.head(*marks.width, h);
  }
  return maps;
}

LineChart head_curves(const AttentionView& view, const ViewedQuantity& quantity,
                      const std::vector<std::int64_t>& heads) {
  LineChart chart{.title = spaced(quantity.name), .x = {"query", picture_labels(view.queries)}};
  std::vector<double> position(view.queries.size());
  std::iota(position.begin(), position.end(), 0);
  for (std::int64_t h : heads)
    chart.series.push_back({.name = head_name(h), .x = position, .y = view.head(quantity, h)});
  return chart;
}

std::vector<Figure> pictures_of(const AttentionView& view, const std::string& title) {
  static const std::set<std::string> not_shown{"scores", "logits", "bias", "seen", "plain_weights", "hidden"};
  std::vector<Figure> maps, curves;
  for (const ViewedQuantity& quantity : view.quantities) {
    const Marks marks(view, quantity.first_head);
    if (not_shown.contains(quantity.name) || &quantity == marks.center || &quantity == marks.width) continue;
    std::vector<std::int64_t> heads(std::size_t(std::min(quantity.heads, most_heads)));
    std::iota(heads.begin(), heads.end(), quantity.first_head);
    const std::string cut =
        quantity.heads > most_heads ? fmt::format(" (the first {} of {} heads)", most_heads, quantity.heads) : "";
    const auto add = [&](auto chart, std::vector<Figure>& figures) {
      chart.title = title + ": " + chart.title + cut;
      figures.emplace_back(chart);
    };
    quantity.of_pairs ? add(head_maps(view, quantity, heads), maps) : add(head_curves(view, quantity, heads), curves);
  }
  maps.insert(maps.end(), curves.begin(), curves.end());
  return maps;
}

std::vector<Figure> pictures_of(const AttentionTrace& trace, const std::string& title, std::vector<std::string> queries,
                                std::vector<std::string> keys) {
  const std::size_t all_keys = keys.size();
  if (queries.size() > most_tokens) queries.resize(most_tokens);
  if (keys.size() > most_tokens) keys.resize(most_tokens);
  const std::string cut =
      all_keys > keys.size() ? fmt::format(" (the first {} of {} keys)", keys.size(), all_keys) : "";
  return pictures_of(view_of(trace, Place::encoder, queries, keys), title + cut);
}

void save_pictures(const std::filesystem::path& run, const std::vector<ShownSentence>& sentences) {
  Json all = Json::array();
  for (const ShownSentence& sentence : sentences) {
    Json figures = Json::array();
    for (const Figure& figure : sentence.figures) figures.push_back(figure.svg);
    all.push_back({{"text", sentence.text}, {"figures", std::move(figures)}});
  }
  save_json(run / "pictures.json", all);
}

namespace {

std::vector<ShownSentence> load_pictures(const std::filesystem::path& file) {
  std::vector<ShownSentence> sentences;
  const Json all = load_json(file);
  reading_json(file.string(), [&] {
    for (const Json& sentence : all) {
      const auto svgs = sentence.at("figures").get<std::vector<std::string>>();
      sentences.push_back({sentence.at("text"), {svgs.begin(), svgs.end()}});
    }
  });
  return sentences;
}

constexpr const char* explanation =
    "The weights of the values after masks and windows, before dropout. Rows are queries, columns keys. Over the "
    "source, a row is the word that is about to be written; in the decoder, the word that was just read. Of every "
    "model the pictures show the same layers: the first one of encoder and decoder, and the last one over the source; "
    "beside it, if that layer computes plain attention, the first layer whose method computes something of its own. "
    "Below the weights are the quantities that a method computes. Orange dots and bars are a Gaussian's centre and "
    "width, one standard deviation to each side, or the focus of flexible attention. Each model is the best seed on "
    "the development set.";

}  // namespace

std::optional<Finding> attention_section(const std::vector<PicturedRun>& runs) {
  constexpr std::size_t most_bytes = 1'200'000;  // of all figures, to limit the size of the page
  Finding section{.title = "Attention", .notes = {explanation}};
  for (const PicturedRun& run : runs) {
    const std::filesystem::path file = run.directory / "pictures.json";
    if (!std::filesystem::exists(file)) continue;
    Finding& own = section.sections.emplace_back(Finding{.title = "", .subtitle = run.title, .notes = {run.note}});
    std::size_t bytes = 0, left_out = 0;
    for (ShownSentence& sentence : load_pictures(file)) {
      Finding& shown = own.sections.emplace_back(Finding{.title = "", .notes = {sentence.text}});
      for (Figure& figure : sentence.figures) {
        const bool fits = bytes == 0 || bytes + figure.svg.size() <= most_bytes / runs.size();
        left_out += !fits;
        if (!fits) continue;
        bytes += figure.svg.size();
        shown.figures.push_back(std::move(figure));
      }
    }
    if (left_out > 0)
      own.notes.push_back(
          fmt::format("{} of this model's pictures are left out, because the page would become too large; `analyze {} "
                      "--out page.html` makes a page of its own.",
                      left_out, run.directory.string()));
  }
  return section.sections.empty() ? std::nullopt : std::optional(std::move(section));
}

}  // namespace fovea
