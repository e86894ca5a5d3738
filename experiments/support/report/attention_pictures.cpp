#include "experiments/support/report/attention_pictures.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "attention/language/specification.h"
#include "autograd/operations.h"
#include "experiments/support/text/number.h"

namespace fovea {

namespace {

constexpr std::int64_t shortest_shown = 8, longest_shown = 16, most_tokens = 32, most_heads = 8;

/// A quantity of a method for one sentence: [h, I, J] for pairs or [h, I] for queries.
struct Quantity {
  std::string name;
  Tensor values;
};

/// The quantity's first heads, queries and keys for the first sentence. `values` is [B, h, I, J] or broadcasts to [B,
/// h, I] as PerQuery captures do; the result is empty for other shapes.
std::optional<Quantity> for_one_sentence(const std::string& name, Tensor values, std::int64_t queries,
                                         std::int64_t keys) {
  while (values.rank() < 3) values = values.unsqueeze(0);
  if (values.rank() > 4) return std::nullopt;
  if (values.size(1) > most_heads) values = values.slice(1, 0, most_heads);
  std::vector<std::int64_t> sizes{1, values.size(1)};
  for (int dim = 2; dim < values.rank(); ++dim) {
    const std::int64_t shown = dim == 2 ? queries : keys;
    if (values.size(dim) > shown) values = values.slice(dim, 0, shown);
    if (values.size(dim) != 1 && values.size(dim) != shown) return std::nullopt;
    sizes.push_back(shown);
  }
  return Quantity{name, values.slice(0, 0, 1).expand(Shape(sizes)).select(0, 0)};
}

std::vector<double> row(const Tensor& values, std::int64_t head) { return values.select(0, head).to_vector<double>(); }

/// The quantity `name` if it is of queries and of one or all `heads`; otherwise null.
const Quantity* find(const std::vector<Quantity>& quantities, const std::string& name, std::int64_t heads) {
  for (const Quantity& quantity : quantities) {
    bool is_for_all = quantity.values.size(0) == heads || quantity.values.size(0) == 1;
    if (quantity.name == name && quantity.values.rank() == 2 && is_for_all) return &quantity;
  }
  return nullptr;
}

/// The name with spaces: "left pointer" for left_pointer.
std::string title_of(const Quantity& quantity) {
  std::string title = quantity.name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

HeadMaps maps_of(const Quantity& quantity, const std::vector<std::string>& queries,
                 const std::vector<std::string>& keys) {
  HeadMaps maps{.title = title_of(quantity), .queries = queries, .keys = keys};
  for (std::int64_t h = 0; h < quantity.values.size(0); ++h)
    maps.heads.push_back({.name = fmt::format("head {}", h + 1), .values = row(quantity.values, h)});
  return maps;
}

/// A line for each head, over the queries.
LineChart curves_of(const Quantity& quantity) {
  LineChart chart{.title = title_of(quantity), .x = {"query"}};
  std::vector<double> position(static_cast<std::size_t>(quantity.values.size(1)));
  std::iota(position.begin(), position.end(), 0);
  for (std::int64_t h = 0; h < quantity.values.size(0); ++h)
    chart.series.push_back({.name = fmt::format("head {}", h + 1), .x = position, .y = row(quantity.values, h)});
  return chart;
}

/// Draws centre and width into the maps of the weights.
void mark_centers(HeadMaps& weights, const Quantity& center, const Quantity* width) {
  for (std::size_t h = 0; h < weights.heads.size(); ++h) {
    auto of_head = [&](const Quantity& q) { return row(q.values, q.values.size(0) == 1 ? 0 : std::int64_t(h)); };
    weights.heads[h].center = of_head(center);
    if (width) weights.heads[h].width = of_head(*width);
  }
}

/// The number of tokens by which a text is too short or too long for a small map; 0: it fits.
std::int64_t misfit_of_map(std::int64_t tokens) {
  return tokens < shortest_shown ? shortest_shown - tokens : std::max<std::int64_t>(tokens - longest_shown, 0);
}

constexpr int no_layer = 1 << 30;

/// The first layer on which a method acts, counted from 1; no_layer if every method is global.
int first_layer(const std::vector<MethodText>& sum) {
  int first = no_layer;
  for (const MethodText& method : sum) {
    int layer = method.name == "global" || method.name == "heads" ? no_layer : 1;
    for (const OptionText& option : method.options) {
      if (option.name == "layers")
        layer = leading_number<int>(option.value).value();  // the registry has checked FIRST-LAST
    }
    for (const Share& share : method.shares) layer = std::min(layer, first_layer(share.sum));
    first = std::min(first, layer);
  }
  return first;
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

int first_layer_of(const std::string& attention) {
  int first = first_layer(parse_specification(attention));
  return first == no_layer ? 0 : first - 1;
}

SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys) {
  if (queries.size() > most_tokens) queries.resize(most_tokens);
  if (keys.size() > most_tokens) keys.resize(most_tokens);
  auto shown = [&](const std::string& name, const Variable& values) {
    return for_one_sentence(name, values.value(), std::int64_t(queries.size()), std::int64_t(keys.size()));
  };
  std::vector<Quantity> quantities;
  for (const auto& [name, values] : trace.quantities) {
    if (auto quantity = shown(name, values)) quantities.push_back(*quantity);
  }
  SentencePictures pictures;
  // weights of each dimension of the values, [B, H, I, J, D], are shown as their mean
  const Variable weights = trace.weights.rank() == 5 ? mean(trace.weights, {4}) : trace.weights;
  pictures.maps.push_back(maps_of(shown("weights", weights).value(), queries, keys));
  auto heads = static_cast<std::int64_t>(pictures.maps.front().heads.size());
  const Quantity* center = find(quantities, "center", heads);
  if (!center) center = find(quantities, "focus", heads);
  const Quantity* width = find(quantities, "width", heads);
  if (center) mark_centers(pictures.maps.front(), *center, width);
  for (const Quantity& quantity : quantities) {
    if (quantity.values.rank() == 3) {
      pictures.maps.push_back(maps_of(quantity, queries, keys));
    } else if (&quantity != center && !(center && &quantity == width)) {
      pictures.curves.push_back(curves_of(quantity));
    }
  }
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

/// The number of sentences of each run that there is room for.
std::vector<std::size_t> shown_sentences(const std::vector<Json>& runs, std::size_t most_bytes) {
  std::vector<std::size_t> shown(runs.size());
  std::size_t bytes = 0, most = 0;
  for (const Json& run : runs) most = std::max(most, run.size());
  for (std::size_t k = 0; k < most; ++k) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (k >= runs[r].size()) continue;
      for (const Json& figure : runs[r][k].at("figures")) bytes += figure.get_ref<const std::string&>().size();
      if (bytes > most_bytes) return shown;
      shown[r] = k + 1;
    }
  }
  return shown;
}

/// Throws Json::exception unless the value has the form that save_pictures() writes.
void require_pictures(const Json& sentences) {
  for (const Json& sentence : sentences.get<std::vector<Json>>()) {
    sentence.at("text").get_ref<const std::string&>();
    for (const Json& figure : sentence.at("figures").get<std::vector<Json>>()) figure.get_ref<const std::string&>();
  }
}

constexpr const char* explanation =
    "The weights of the values after masks and windows, before dropout. Rows are queries, columns keys. Over the "
    "source, "
    "a row is the word that is about to be written; in the decoder, the word that was just read. Each kind of "
    "attention "
    "is shown in the first layer whose method computes something of its own (over the source, otherwise in the last "
    "layer). Below the weights are the quantities that a method computes. Orange dots and bars are a Gaussian's centre "
    "and width, one standard deviation to each side, or the focus of flexible attention. Each model is the best seed "
    "on "
    "the development set.";

}  // namespace

void add_attention_section(Report& report, const std::vector<PicturedRun>& runs, std::size_t most_bytes) {
  std::vector<Json> pictures;
  std::vector<const PicturedRun*> pictured;
  for (const PicturedRun& run : runs) {
    const std::filesystem::path file = run.directory / "pictures.json";
    if (!std::filesystem::exists(file)) continue;
    pictured.push_back(&run);
    pictures.push_back(load_json(file));
    reading_run_file(file.string(), [&] { require_pictures(pictures.back()); });
  }
  if (pictured.empty()) return;
  report.section("Attention").text(explanation);
  const std::vector<std::size_t> shown = shown_sentences(pictures, most_bytes);
  for (std::size_t r = 0; r < pictured.size(); ++r) {
    report.subsection(pictured[r]->title);
    report.text(shown[r] ? pictured[r]->note : "Left out, because the page would become too large.");
    for (std::size_t k = 0; k < shown[r]; ++k) {
      report.text(pictures[r][k].at("text"));
      for (const Json& figure : pictures[r][k].at("figures")) report.add_figure(figure);
    }
  }
}

}  // namespace fovea
