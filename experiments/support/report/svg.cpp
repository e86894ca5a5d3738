#include "experiments/support/report/svg.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/axis.h"
#include "experiments/support/report/drawing.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {
namespace {

constexpr std::size_t colours = 8;

std::string colour_class(std::size_t series) { return fmt::format("c{}", series % colours); }

/// Series of the same colour differ in their strokes.
const char* stroke_of(const Series& series, std::size_t number) {
  if (number >= 2 * colours) return " dotted";
  return series.dashed || number >= colours ? " dashed" : "";
}

/// A chart: title and legend, below them two axes around the plot.
class Plot {
 public:
  using Values = std::vector<std::span<const double>>;

  Plot(const std::string& title, const Axis& x_axis, const Axis& y_axis, const std::vector<Series>& legend,
       const Values& x_values, const Values& y_values, AxisScale::Ends x_ends)
      : title_(title), x_(x_axis, x_values, x_ends, 0, 1), y_(y_axis, y_values, AxisScale::Ends::at_ticks, 0, 1) {
    constexpr double plot_height = 240;
    double top = draw_head(legend);
    if (!y_axis.label.empty()) drawing_.text(0, top + 11, y_axis.label, "axis"), top += axis_label_height;
    bottom_ = top + plot_height;
    for (double tick : y_.ticks()) left_ = std::max(left_, text_pixels(y_.label(tick)) + 10);
    x_.place(left_, right_);
    y_.place(bottom_, top + 6);
    for (double tick : y_.ticks()) {
      drawing_.line(left_, y_.pixel(tick), right_, y_.pixel(tick), "grid");
      drawing_.text(left_ - 8, y_.pixel(tick) + 4, y_.label(tick), "tick", "end");
    }
    drawing_.line(left_, bottom_, right_, bottom_, "base");
    const double middle = (left_ + right_) / 2;
    if (!shows_any(x_, x_values) || !shows_any(y_, y_values))
      drawing_.text(middle, (top + bottom_) / 2, "no data", "axis", "middle");
    height_ = bottom_ + draw_ticks(x_axis);
    if (!x_axis.label.empty()) drawing_.text(middle, height_ += axis_label_height, x_axis.label, "axis", "middle");
  }

  bool shows(double x, double y) const { return x_.can_show(x) && y_.can_show(y); }
  /// "12 34.5"
  std::string at(double x, double y) const { return px(x_.pixel(x)) + " " + px(y_.pixel(y)); }
  void path(const std::string& style, const std::string& d) {
    drawing_.raw(fmt::format("<path class=\"{}\" d=\"{}\"/>\n", style, d));
  }
  std::string element() const { return drawing_.element(chart_width, height_ + 8, title_); }

 private:
  static bool shows_any(const AxisScale& scale, const Values& values) {
    return std::any_of(values.begin(), values.end(), [&](auto part) {
      return std::any_of(part.begin(), part.end(), [&](double value) { return scale.can_show(value); });
    });
  }

  /// Title, then the legend in as many rows as it needs. Returns where the plot may begin.
  double draw_head(const std::vector<Series>& legend) {
    constexpr double swatch = 18, gap = 16, longest_name = chart_width - 40, row = 19;
    if (!title_.empty()) drawing_.text(0, 15, title_, "title");
    double x = 0, y = title_.empty() ? 0 : title_height;
    bool has_row = false;
    for (std::size_t k = 0; k < legend.size(); ++k) {
      if (legend[k].name.empty()) continue;
      std::string name = legend[k].name;
      for (std::size_t most = name.size(); text_pixels(name) > longest_name; --most)
        name = shortened(legend[k].name, most);
      const double width = swatch + 6 + text_pixels(name);
      if (has_row && x + width > chart_width) x = 0, y += row;
      path(fmt::format("curve {}{}", colour_class(k), stroke_of(legend[k], k)),
           fmt::format("M{} {}h{}", px(x), px(y + 9), px(swatch)));
      drawing_.text(x + swatch + 6, y + 13, name, "legend");
      x += width + gap;
      has_row = true;
    }
    return y + (has_row ? row + 6 : 0);
  }

  /// Draws the ticks and labels of the horizontal axis, and returns the height that the labels take. Of many tokens
  /// only every second, third, ... is written.
  double draw_ticks(const Axis& axis) {
    constexpr std::size_t longest = 14;
    constexpr double label_height = 18;
    auto mark = [&](double value) {
      drawing_.line(x_.pixel(value), bottom_, x_.pixel(value), bottom_ + 4, "base");
      return x_.pixel(value);
    };
    if (axis.tokens.empty()) {
      for (double tick : x_.ticks())
        drawing_.text(mark(tick), bottom_ + label_height, x_.label(tick), "tick", "middle");
      return label_height;
    }
    const double distance = x_.pixel(x_.low() + 1) - x_.pixel(x_.low());
    const auto stride = static_cast<std::size_t>(std::max(1.0, std::ceil(font_size / distance)));
    for (std::size_t i = 0; i < axis.tokens.size(); i += stride) {
      const double at = static_cast<double>(i);
      if (at < x_.low() || at > x_.high()) continue;
      drawing_.text(mark(at) + 4, bottom_ + 8, shortened(printable(axis.tokens[i]), longest), "token", "end", -90);
    }
    return longest_label(axis.tokens, longest, font_size) + 10;
  }

  Drawing drawing_;
  std::string title_;
  AxisScale x_, y_;
  double left_ = 0, right_ = chart_width - 14, bottom_ = 0, height_ = 0;
};

/// "M1 2L3 4": a new part begins where a point cannot be shown.
std::string curve_path(const Plot& plot, const Series& series) {
  std::string path;
  bool is_pen_down = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = plot.shows(series.x[i], series.y[i]);
    if (shown) path += (is_pen_down ? "L" : "M") + plot.at(series.x[i], series.y[i]);
    is_pen_down = shown;
  }
  return path;
}

/// The points as lines of no length, which round ends make dots.
std::string dots_path(const Plot& plot, const Series& series) {
  std::string path;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (plot.shows(series.x[i], series.y[i])) path += "M" + plot.at(series.x[i], series.y[i]) + "h0";
  return path;
}

/// Mean plus and minus deviation, there and back. Points without a deviation end a part.
std::string band_path(const Plot& plot, const Series& series) {
  std::string path, there, back;
  auto close = [&] {
    if (!there.empty()) path += fmt::format("M{}L{}Z", there, back);
    there.clear(), back.clear();
  };
  for (std::size_t i = 0; i < series.deviation.size(); ++i) {
    const double high = series.y[i] + series.deviation[i], low = series.y[i] - series.deviation[i];
    if (!plot.shows(series.x[i], high)) {
      close();
      continue;
    }
    there += (there.empty() ? "" : "L") + plot.at(series.x[i], high);
    back = plot.at(series.x[i], low) + (back.empty() ? "" : "L" + back);
  }
  close();
  return path;
}

/// The plot of a chart. Throws Error if sizes contradict each other.
Plot plot_of(const LineChart& chart) {
  Plot::Values x, y;
  std::vector<std::vector<double>> bands;  // their ends count for the range of the axis as well
  for (const Series& s : chart.series) {
    require(s.x.size() == s.y.size(), "chart '{}': series '{}' has {} x values and {} y values", chart.title, s.name,
            s.x.size(), s.y.size());
    require(s.deviation.empty() || s.deviation.size() == s.y.size(),
            "chart '{}': series '{}' has {} y values and {} deviations", chart.title, s.name, s.y.size(),
            s.deviation.size());
    std::vector<double>& ends = bands.emplace_back();
    for (std::size_t i = 0; i < s.deviation.size(); ++i)
      ends.insert(ends.end(), {s.y[i] + s.deviation[i], s.y[i] - s.deviation[i]});
    x.push_back(s.x), y.push_back(s.y);
  }
  y.insert(y.end(), bands.begin(), bands.end());
  return Plot(chart.title, chart.x, chart.y, chart.series, x, y,
              chart.points ? AxisScale::Ends::at_ticks : AxisScale::Ends::at_data);
}

}  // namespace

std::string svg(const LineChart& chart) {
  constexpr std::size_t few_points = 60;
  Plot plot = plot_of(chart);
  for (std::size_t s = 0; s < chart.series.size(); ++s)
    if (!chart.series[s].deviation.empty()) plot.path("band " + colour_class(s), band_path(plot, chart.series[s]));
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    const std::string stroke = stroke_of(series, s), colour = colour_class(s);
    if (!chart.points) plot.path("curve " + colour + stroke, curve_path(plot, series));
    if (chart.points || (series.x.size() <= few_points && stroke.empty()))
      plot.path((chart.points ? "dots cloud " : "dots ") + colour, dots_path(plot, series));
  }
  return plot.element();
}

std::string Figure::title() const {
  constexpr std::string_view label = "aria-label=\"";
  const std::size_t begin = svg.find(label);
  if (begin == std::string::npos) return "figure";
  return svg.substr(begin + label.size(), svg.find('"', begin + label.size()) - begin - label.size());
}

namespace {

/// Width and height of an <svg> element.
std::pair<double, double> size_of(const std::string& svg) {
  const auto size = [&](std::string_view name) {
    return std::strtod(svg.c_str() + svg.find(name) + name.size(), nullptr);
  };
  return {size("width=\""), size("height=\"")};
}

struct PaletteColour {
  const char *name, *light, *dark;
};
constexpr PaletteColour palette[] = {
    {"paper", "#ffffff", "#14171b"}, {"panel", "#f5f6f8", "#1d2127"}, {"ink", "#1b1f24", "#e4e8ec"},
    {"faint", "#626b76", "#98a2ad"}, {"line", "#dfe3e8", "#2d333b"},  {"accent", "#0b62b0", "#6db3f2"},
    {"hot", "#0b5cad", "#5fb0f5"},   {"cold", "#c2452d", "#f0836b"},  {"c0", "#0b6fb8", "#58aef0"},
    {"c1", "#d1570a", "#f0904d"},    {"c2", "#0a8a63", "#3fc796"},    {"c3", "#b5477f", "#e388b6"},
    {"c4", "#c08a00", "#e0b83a"},    {"c5", "#6a51c7", "#a996f2"},    {"c6", "#3aa0c9", "#7fd3ee"},
    {"c7", "#59636e", "#aab4be"}};

}  // namespace

std::string stacked(const std::vector<std::string>& svgs) {
  if (svgs.size() == 1) return svgs.front();
  constexpr double gap = 24;
  double width = 0, y = 0;
  std::string body;
  for (const std::string& each : svgs) {
    const auto [own_width, own_height] = size_of(each);
    body += fmt::format("<svg y=\"{}\" {}\n", px(y), each.substr(std::string_view("<svg ").size()));
    width = std::max(width, own_width);
    y += own_height + gap;
  }
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n{2}</svg>",
      px(width), px(std::max(y - gap, 0.0)), body);
}

std::string file_of(const std::string& svg) {
  constexpr double margin = 6;
  std::string style(chart_style());  // in light colours: programs other than browsers know no variables
  for (const PaletteColour& colour : palette) {
    const std::string variable = fmt::format("var(--{})", colour.name);
    for (std::size_t at = 0; (at = style.find(variable, at)) != std::string::npos;)
      style.replace(at, variable.size(), colour.light);
  }
  const auto [width, height] = size_of(svg);
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" "
             "width=\"{0}\" height=\"{1}\" viewBox=\"-{2} -{2} {0} {1}\">\n<style>{3}</style>\n"
             "<rect x=\"-{2}\" y=\"-{2}\" width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>",
             px(width + 2 * margin), px(height + 2 * margin), px(margin), style) +
         svg.substr(svg.find('>') + 1) + "\n";
}

void write_svg(const std::filesystem::path& path, const std::string& svg) { write_file_atomically(path, file_of(svg)); }

std::string palette_style() {
  const auto variables = [](const char* PaletteColour::*which) {
    std::string text;
    for (const PaletteColour& colour : palette) text += fmt::format(" --{}: {};", colour.name, colour.*which);
    return text;
  };
  return fmt::format(
      "\n:root {{ color-scheme: light dark;{} }}\n@media (prefers-color-scheme: dark) {{ :root {{{} }} }}\n",
      variables(&PaletteColour::light), variables(&PaletteColour::dark));
}

std::string_view chart_style() {
  return R"(
.chart { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
.chart text { fill: var(--ink); } .chart .title { font-size: 14px; font-weight: 600; }
.chart .tick, .chart .axis { fill: var(--faint); } .chart .tick { font-variant-numeric: tabular-nums; }
.chart .grid { stroke: var(--line); } .chart .base { stroke: var(--faint); }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.curve { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 5 4; } .dotted { stroke-dasharray: 1 4; } .band { fill: currentColor; fill-opacity: .1; }
.dots { fill: none; stroke: currentColor; stroke-width: 5; stroke-linecap: round; } .cloud { stroke-opacity: .55; }
.panel { fill: var(--panel); } .cells rect, .cells path { fill: var(--hot); } .cells .cold { fill: var(--cold); }
.cells path { stroke: var(--panel); stroke-width: .08; }
.cells .missing { fill: var(--line); }
.spread { stroke: var(--c1); stroke-width: 1.3; stroke-opacity: .75; } .center { fill: var(--c1); }
.node { fill: var(--panel); stroke: var(--faint); } .leaf { stroke: var(--accent); stroke-width: 2; }
.edge { fill: none; stroke: var(--faint); stroke-width: 1.3; }
.marked { fill: none; stroke: var(--c1); stroke-width: 2; pointer-events: none; }
)";
}

}  // namespace fovea
