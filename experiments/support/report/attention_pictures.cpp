#include "experiments/support/report/attention_pictures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "experiments/support/text/number.h"

namespace fovea {

namespace {

constexpr std::int64_t shortest_shown = 8, longest_shown = 16, most_tokens = 32, most_heads = 8;

/// The name with spaces: "left pointer" for left_pointer.
std::string title_of(const ViewedQuantity& quantity) {
  std::string title = quantity.name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

/// The quantities that are drawn into the maps of the weights; null: there is none.
struct Marks {
  const ViewedQuantity *center = nullptr, *width = nullptr;

  explicit Marks(const AttentionView& view) {
    const auto find = [&](const char* name) {
      const ViewedQuantity* found = view.find(name);
      const std::int64_t heads = view.quantities.front().heads;
      return found && !found->of_pairs && (found->heads == 1 || found->heads == heads) ? found : nullptr;
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
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(misfit_of_map(lengths[a]), -examples[a].group) <
           std::pair(misfit_of_map(lengths[b]), -examples[b].group);
  });
  std::vector<std::size_t> chosen;
  std::set<std::string> texts;
  while (chosen.size() < count) {
    std::set<std::string> classes;
    const std::size_t before = chosen.size();
    for (std::size_t k : order) {
      if (chosen.size() == count) break;
      const TestedExample& example = examples[k];
      const std::string& kind = example.probabilities.empty() ? std::string() : example.reference;
      if (classes.count(kind) || !texts.insert(example.input + "\n" + example.reference).second) continue;
      classes.insert(kind);
      chosen.push_back(k);
    }
    if (chosen.size() == before) break;
  }
  return chosen;
}

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
  auto other = std::find_if(traces.begin(), traces.end(), [](auto* trace) { return !trace->quantities.empty(); });
  if (other != traces.end()) all.push_back(*other);
  return all;
}

HeadMaps head_maps(const AttentionView& view, const ViewedQuantity& quantity, const std::vector<std::int64_t>& heads) {
  HeadMaps maps{
      .title = title_of(quantity), .queries = picture_labels(view.queries), .keys = picture_labels(view.keys)};
  const Marks marks(view);
  for (std::int64_t h : heads) {
    HeadMaps::Head& head = maps.heads.emplace_back();
    head.name = head_name(h);
    head.values = view.head(quantity, h);
    if (&quantity == &view.quantities.front() && marks.center) head.center = view.head(*marks.center, h);
    if (&quantity == &view.quantities.front() && marks.width) head.width = view.head(*marks.width, h);
  }
  return maps;
}

LineChart head_curves(const AttentionView& view, const ViewedQuantity& quantity,
                      const std::vector<std::int64_t>& heads) {
  LineChart chart{.title = title_of(quantity), .x = {"query", picture_labels(view.queries)}};
  std::vector<double> position(view.queries.size());
  std::iota(position.begin(), position.end(), 0);
  for (std::int64_t h : heads)
    chart.series.push_back({.name = head_name(h), .x = position, .y = view.head(quantity, h)});
  return chart;
}

SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys) {
  if (queries.size() > most_tokens) queries.resize(most_tokens);
  if (keys.size() > most_tokens) keys.resize(most_tokens);
  const AttentionView view = view_of(trace, Place::encoder, queries, keys);
  const Marks marks(view);
  const std::int64_t all_heads = trace.weights.size(1), all_keys = trace.weights.size(3);
  SentencePictures pictures;
  for (const ViewedQuantity& quantity : view.quantities) {
    std::vector<std::int64_t> heads(static_cast<std::size_t>(std::min(quantity.heads, most_heads)));
    std::iota(heads.begin(), heads.end(), 1);
    if (quantity.of_pairs)
      pictures.maps.push_back(head_maps(view, quantity, heads));
    else if (&quantity != marks.center && &quantity != marks.width && quantity.name != "hidden")
      pictures.curves.push_back(head_curves(view, quantity, heads));
  }
  std::string cut;
  if (all_heads > most_heads) cut = fmt::format(" (heads 1 to {} of {})", most_heads, all_heads);
  if (all_keys > std::ssize(keys)) cut += fmt::format(" (the first {} of {} keys)", keys.size(), all_keys);
  pictures.maps.front().title += cut;
  if (!place.empty()) {
    for (HeadMaps& maps : pictures.maps) maps.title = place + ": " + maps.title;
    for (LineChart& curves : pictures.curves) curves.title = place + ": " + curves.title;
  }
  return pictures;
}

void save_pictures(const std::filesystem::path& run, const std::vector<ShownSentence>& sentences) {
  Json all = Json::array();
  for (const ShownSentence& sentence : sentences) {
    Json figures = Json::array();
    for (const HeadMaps& maps : sentence.pictures.maps) figures.push_back(svg(maps));
    for (const LineChart& curves : sentence.pictures.curves) figures.push_back(svg(curves));
    all.push_back({{"text", sentence.text}, {"figures", std::move(figures)}});
  }
  save_json(run / "pictures.json", all);
}

namespace {

/// A sentence of pictures.json.
struct DrawnSentence {
  std::string text;
  std::vector<std::string> figures;
};

std::vector<DrawnSentence> load_pictures(const std::filesystem::path& file) {
  std::vector<DrawnSentence> sentences;
  const Json all = load_json(file);
  reading_json(file.string(), [&] {
    for (const Json& sentence : all.get<std::vector<Json>>())
      sentences.push_back({sentence.at("text"), sentence.at("figures").get<std::vector<std::string>>()});
  });
  return sentences;
}

constexpr const char* explanation =
    "The weights of the values after masks and windows, before dropout. Rows are queries, columns keys. Over the "
    "source, a row is the word that is about to be written; in the decoder, the word that was just read. Of every "
    "model "
    "the pictures show the same layers: the first one of encoder and decoder, and the last one over the source; beside "
    "it, if that layer computes plain attention, the first layer whose method computes something of its own. Below the "
    "weights are the quantities that a method computes. Orange dots and bars are a Gaussian's centre and width, one "
    "standard deviation to each side, or the focus of flexible attention. Each model is the best seed on the "
    "development set.";

}  // namespace

void add_attention_section(Report& report, const std::vector<PicturedRun>& runs) {
  std::vector<std::pair<const PicturedRun*, std::vector<DrawnSentence>>> pictured;
  for (const PicturedRun& run : runs)
    if (const std::filesystem::path file = run.directory / "pictures.json"; std::filesystem::exists(file))
      pictured.emplace_back(&run, load_pictures(file));
  if (pictured.empty()) return;
  // For a page of limited size: of every run the first figure, then the others of its first sentence, then further
  // sentences while the page is small.
  constexpr std::size_t many_bytes = 600'000, most_bytes = 3'000'000;
  std::size_t bytes = 0, most = 0;
  for (const auto& [run, sentences] : pictured) most = std::max(most, sentences.size());
  std::map<const PicturedRun*, std::size_t> left_out;
  for (std::size_t k = 0; k < most; ++k)
    for (auto& [run, sentences] : pictured) {
      if (k >= sentences.size()) continue;
      std::vector<std::string> shown;
      for (std::string& figure : sentences[k].figures) {
        if ((k > 0 || !shown.empty()) && bytes + figure.size() >= (k == 0 ? most_bytes : many_bytes)) continue;
        bytes += figure.size();
        shown.push_back(std::move(figure));
      }
      left_out[run] += sentences[k].figures.size() - shown.size();
      sentences[k].figures = std::move(shown);
    }
  report.section("Attention").text(explanation);
  for (const auto& [run, sentences] : pictured) {
    report.subsection(run->title).text(run->note);
    for (const DrawnSentence& sentence : sentences) {
      if (!sentence.figures.empty()) report.text(sentence.text);
      for (const std::string& figure : sentence.figures) report.add_figure(figure, run->title);
    }
    if (left_out[run] > 0)
      report.text(
          fmt::format("{} of this model's pictures are left out, because the page would become too large; `report {} "
                      "--figures DIRECTORY` writes them all.",
                      left_out[run], run->directory.string()));
  }
}

}  // namespace fovea
