/// The papers' pictures as SVG: curves, scatter plots, histograms, and heat maps of attention.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

struct Axis {
  std::string label;
  bool logarithmic = false;         ///< values <= 0 are left out
  std::optional<double> low, high;  ///< empty: from the data, rounded to the next tick

  Axis() = default;
  Axis(std::string label, bool logarithmic = false, std::optional<double> low = {}, std::optional<double> high = {})
      : label(std::move(label)), logarithmic(logarithmic), low(low), high(high) {}
  Axis(const char* label) : label(label) {}
};

/// One curve or cloud of points. NaN breaks a curve.
struct Series {
  std::string name{};
  std::vector<double> x{}, y{};
  std::vector<double> deviation{};  ///< of y; drawn as a band. Empty: none.
  bool dashed = false;              ///< a reference: the paper's number, a baseline
};

struct LineChart {
  std::string title{};
  Axis x{}, y{};
  std::vector<Series> series{};
};

struct ScatterPlot {
  std::string title{};
  Axis x{}, y{};
  std::vector<Series> series{};
};

struct Histogram {
  struct Group {
    std::string name{};
    std::vector<double> values{};
  };
  std::string title{};
  Axis x{};
  std::vector<Group> groups{};  ///< drawn over each other, each as a share of its own values
  int bins = 30;                ///< of equal width over the range of all groups
};

/// Attention weights, a window, a bias: values[i * keys.size() + j] for query i and key j.
/// Weights (nothing below 0) go from the paper's colour to blue; where there are negative values, they are red.
struct HeatMap {
  std::string title{};
  std::vector<std::string> queries{}, keys{};  ///< rows and columns
  std::vector<double> values{};                ///< [I, J] row-major; NaN and infinities are left white
  std::optional<double> low{}, high{};  ///< ends of the colour scale; empty: 0 (or -high), and the largest magnitude
  std::vector<std::pair<int, int>> marked{};  ///< (i, j) to be outlined: gold alignments
  std::string query_label = "query", key_label = "key";
};

/// The same for the heads of an attention, small and side by side, all on one colour scale. There are no tooltips: a
/// page may have hundreds of these.
struct HeadMaps {
  struct Head {
    std::string name{};
    std::vector<double> values{};           ///< [I, J] row-major; NaN and infinities are left white
    std::vector<double> center{}, width{};  ///< [I], in keys: drawn as a dot with a bar of that width. Empty: none
  };
  std::string title{};
  std::vector<std::string> queries{}, keys{};
  std::vector<Head> heads{};
};

/// An <svg> element for a page that has palette_style() and chart_style(). Throws Error where x and y (or queries, keys
/// and values) do not fit each other.
std::string svg(const LineChart& chart);
std::string svg(const ScatterPlot& chart);
std::string svg(const Histogram& chart);
std::string svg(const HeatMap& chart);
std::string svg(const HeadMaps& maps);

/// Writes such an element, with the styles in it, as a file of its own.
void write_svg(const std::filesystem::path& path, const std::string& svg);

/// The colours of pages and charts, light and dark, as CSS variables.
std::string_view palette_style();
std::string_view chart_style();

}  // namespace fovea
