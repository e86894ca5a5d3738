#include "experiments/support/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/axis.h"
#include "experiments/support/report/drawing.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {
namespace {

constexpr double plot_height = 240, legend_row = 19, tick_label_height = 18;  // pixels
constexpr std::size_t colours = 8;

std::string colour_class(std::size_t series) { return fmt::format("c{}", series % colours); }

// --- frame: title, legend, axes ----------------------------------------------------------------------------------

struct LegendEntry {
  std::string name;
  std::size_t colour;
  const char* stroke;  ///< a class
};

/// Series of the same colour differ in their strokes.
const char* stroke_of(const Series& series, std::size_t number) {
  if (number >= 2 * colours) return " dotted";
  return series.dashed || number >= colours ? " dashed" : "";
}

/// Title, then the legend in as many rows as it needs. Returns where the plot may begin.
double draw_head(Drawing& drawing, const std::string& title, const std::vector<LegendEntry>& legend) {
  constexpr double swatch = 18, gap = 16, longest_name = chart_width - 40;
  double y = 0;
  if (!title.empty()) {
    drawing.text(0, 15, title, "title");
    y = title_height;
  }
  double x = 0;
  bool has_row = false;
  for (const LegendEntry& entry : legend) {
    std::string name = entry.name;
    for (std::size_t most = entry.name.size(); text_pixels(name) > longest_name; --most)
      name = shortened(entry.name, most);
    double width = swatch + 6 + text_pixels(name);
    if (has_row && x + width > chart_width) {
      x = 0;
      y += legend_row;
    }
    drawing.raw(fmt::format("<line class=\"curve {}{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
                            colour_class(entry.colour), entry.stroke, px(x), px(y + 9), px(x + swatch), px(y + 9)));
    drawing.text(x + swatch + 6, y + 13, name, "legend");
    x += width + gap;
    has_row = true;
  }
  return y + (has_row ? legend_row + 6 : 0);
}

/// The plot's rectangle, its two scales, and the height of the labels below it.
struct Frame {
  double left, top, right, bottom;
  AxisScale x, y;
  double labels_height;
};

using Values = std::vector<std::span<const double>>;

bool shows_any(const AxisScale& scale, const Values& values) {
  return std::any_of(values.begin(), values.end(), [&](auto part) {
    return std::any_of(part.begin(), part.end(), [&](double value) { return scale.can_show(value); });
  });
}

/// Draws the ticks and labels of the horizontal axis, and returns the height that the labels take. Of many tokens only
/// every second, third, ... is written.
double draw_labels(Drawing& drawing, const Axis& axis, const AxisScale& x, double bottom) {
  if (axis.tokens.empty()) {
    for (double tick : x.ticks()) {
      drawing.line(x.pixel(tick), bottom, x.pixel(tick), bottom + 4, "base");
      drawing.text(x.pixel(tick), bottom + tick_label_height, x.label(tick), "tick", "middle");
    }
    return tick_label_height;
  }
  constexpr std::size_t longest = 14;
  const double distance = x.pixel(x.low() + 1) - x.pixel(x.low());
  const auto stride = static_cast<std::size_t>(std::max(1.0, std::ceil(font_size / distance)));
  for (std::size_t i = 0; i < axis.tokens.size(); i += stride) {
    const double at = static_cast<double>(i), pixel = x.pixel(at);
    if (at < x.low() || at > x.high()) continue;
    drawing.line(pixel, bottom, pixel, bottom + 4, "base");
    drawing.text(pixel + 4, bottom + 8, shortened(printable(axis.tokens[i]), longest), "token", "end", -90);
  }
  return longest_label(axis.tokens, longest, font_size) + 10;
}

/// Places the plot below `top`, leaving the room that the y labels need, and draws grid, ticks and labels.
Frame draw_axes(Drawing& drawing, double top, const Axis& x_axis, const Axis& y_axis, const Values& x_values,
                const Values& y_values, AxisScale::Ends x_ends) {
  if (!y_axis.label.empty()) {
    drawing.text(0, top + 11, y_axis.label, "axis");
    top += axis_label_height;
  }
  double bottom = top + plot_height, left = 0;
  AxisScale y(y_axis, y_values, AxisScale::Ends::at_ticks, bottom, top + 6);
  for (double tick : y.ticks()) left = std::max(left, text_pixels(y.label(tick)) + 10);
  double right = chart_width - 14;
  AxisScale x(x_axis, x_values, x_ends, left, right);
  for (double tick : y.ticks()) {
    drawing.line(left, y.pixel(tick), right, y.pixel(tick), "grid");
    drawing.text(left - 8, y.pixel(tick) + 4, y.label(tick), "tick", "end");
  }
  drawing.line(left, bottom, right, bottom, "base");
  if (!shows_any(x, x_values) || !shows_any(y, y_values)) {
    drawing.text((left + right) / 2, (top + bottom) / 2, "no data", "axis", "middle");
  }
  const double labels_height = draw_labels(drawing, x_axis, x, bottom);
  if (!x_axis.label.empty()) {
    drawing.text((left + right) / 2, bottom + labels_height + axis_label_height, x_axis.label, "axis", "middle");
  }
  return {left, top, right, bottom, x, y, labels_height};
}

double height_of(const Frame& frame, const Axis& x_axis) {
  return frame.bottom + frame.labels_height + (x_axis.label.empty() ? 0 : axis_label_height) + 8;
}

void check(const std::string& title, const std::vector<Series>& series) {
  for (const Series& s : series) {
    require(s.x.size() == s.y.size(), "chart '{}': series '{}' has {} x values and {} y values", title, s.name,
            s.x.size(), s.y.size());
    require(s.deviation.empty() || s.deviation.size() == s.y.size(),
            "chart '{}': series '{}' has {} y values and {} deviations", title, s.name, s.y.size(), s.deviation.size());
  }
}

std::vector<LegendEntry> legend_of(const std::vector<Series>& series) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!series[i].name.empty()) legend.push_back({series[i].name, i, stroke_of(series[i], i)});
  }
  return legend;
}

std::string point_text(const Series& series, std::size_t i) {
  std::string text = series.name.empty() ? "" : series.name + ", ";
  text += short_value(series.x[i]) + ": " + short_value(series.y[i]);
  bool has_deviation = !series.deviation.empty() && std::isfinite(series.deviation[i]);
  return has_deviation ? text + " ± " + short_value(series.deviation[i]) : text;
}

// --- curves --------------------------------------------------------------------------------------------------------

/// The indices that are visible at this size: of long curves the lowest and the highest point of each stretch, and a
/// gap if there is one.
std::vector<std::size_t> visible_points(const std::vector<double>& y) {
  constexpr std::size_t most = 1000, stretches = most / 2;
  std::vector<std::size_t> chosen;
  if (y.size() <= most) {
    for (std::size_t i = 0; i < y.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  for (std::size_t s = 0; s < stretches; ++s) {
    std::size_t begin = s * y.size() / stretches, end = (s + 1) * y.size() / stretches;
    std::optional<std::size_t> lowest, highest, gap;
    for (std::size_t i = begin; i < end; ++i) {
      if (std::isnan(y[i])) {
        gap = i;
      } else {
        if (!lowest || y[i] < y[*lowest]) lowest = i;
        if (!highest || y[i] > y[*highest]) highest = i;
      }
    }
    std::set<std::size_t> in_order;
    for (auto index : {lowest, highest, gap}) {
      if (index) in_order.insert(*index);
    }
    chosen.insert(chosen.end(), in_order.begin(), in_order.end());
  }
  return chosen;
}

/// "M1 2L3 4": a new part begins where a point cannot be shown.
std::string curve_path(const Frame& frame, const Series& series, const std::vector<std::size_t>& points) {
  std::string path;
  bool is_pen_down = false;
  for (std::size_t i : points) {
    bool shown = frame.x.can_show(series.x[i]) && frame.y.can_show(series.y[i]);
    if (shown) {
      path += fmt::format("{}{} {}", is_pen_down ? "L" : "M", px(frame.x.pixel(series.x[i])),
                          px(frame.y.pixel(series.y[i])));
    }
    is_pen_down = shown;
  }
  return path;
}

/// Mean plus and minus deviation, there and back. Points without a deviation end it.
void draw_band(Drawing& drawing, const Frame& frame, const Series& series, const std::vector<std::size_t>& points,
               const std::string& colour) {
  std::string there, back;
  auto close = [&] {
    if (!there.empty()) drawing.raw(fmt::format("<path class=\"band {}\" d=\"M{}L{}Z\"/>\n", colour, there, back));
    there.clear();
    back.clear();
  };
  for (std::size_t i : points) {
    double high = series.y[i] + series.deviation[i], low = series.y[i] - series.deviation[i];
    if (!frame.x.can_show(series.x[i]) || !frame.y.can_show(high)) {
      close();
      continue;
    }
    if (!frame.y.can_show(low)) low = frame.y.low();
    std::string x = px(frame.x.pixel(series.x[i]));
    there += fmt::format("{}{} {}", there.empty() ? "" : "L", x, px(frame.y.pixel(high)));
    back = fmt::format("{} {}{}", x, px(frame.y.pixel(low)), back.empty() ? "" : "L" + back);
  }
  close();
}

void draw_points(Drawing& drawing, const Frame& frame, const Series& series, const std::string& classes,
                 double radius) {
  drawing.raw(fmt::format("<g class=\"{}\">\n", classes));
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!frame.x.can_show(series.x[i]) || !frame.y.can_show(series.y[i])) continue;
    drawing.raw(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\">{}</circle>\n", px(frame.x.pixel(series.x[i])),
                            px(frame.y.pixel(series.y[i])), px(radius), tooltip(point_text(series, i))));
  }
  drawing.raw("</g>\n");
}

/// Many points, without tooltips, as one path of lines of no length.
void draw_cloud(Drawing& drawing, const Frame& frame, const Series& series, const std::string& classes) {
  std::string path;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (frame.x.can_show(series.x[i]) && frame.y.can_show(series.y[i]))
      path += fmt::format("M{} {}h0", px(frame.x.pixel(series.x[i])), px(frame.y.pixel(series.y[i])));
  drawing.raw(fmt::format("<path class=\"cloud {}\" d=\"{}\"/>\n", classes, path));
}

/// The ends of the bands count for the range of the axis as well.
std::vector<double> band_ends(const Series& series) {
  std::vector<double> ends;
  for (std::size_t i = 0; i < series.deviation.size(); ++i) {
    ends.push_back(series.y[i] + series.deviation[i]);
    ends.push_back(series.y[i] - series.deviation[i]);
  }
  return ends;
}

}  // namespace

std::string svg(const LineChart& chart) {
  check(chart.title, chart.series);
  Drawing drawing;
  std::vector<std::vector<double>> bands;
  for (const Series& series : chart.series) bands.push_back(band_ends(series));
  Values x, y;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    x.push_back(chart.series[s].x);
    y.push_back(chart.series[s].y);
    y.push_back(bands[s]);
  }
  double top = draw_head(drawing, chart.title, legend_of(chart.series));
  Frame frame = draw_axes(drawing, top, chart.x, chart.y, x, y, AxisScale::Ends::at_data);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (!series.deviation.empty()) draw_band(drawing, frame, series, visible_points(series.y), colour_class(s));
  }
  constexpr std::size_t few_points = 60;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    auto points = visible_points(series.y);
    const std::string stroke = stroke_of(series, s);
    drawing.raw(fmt::format("<path class=\"curve {}{}\" d=\"{}\"/>\n", colour_class(s), stroke,
                            curve_path(frame, series, points)));
    bool has_dots = points.size() <= few_points && stroke.empty();
    if (has_dots) draw_points(drawing, frame, series, "dots " + colour_class(s), 2.6);
  }
  return drawing.element(chart_width, height_of(frame, chart.x), chart.title);
}

std::string svg(const ScatterPlot& chart) {
  check(chart.title, chart.series);
  Drawing drawing;
  Values x, y;
  for (const Series& series : chart.series) {
    x.push_back(series.x);
    y.push_back(series.y);
  }
  double top = draw_head(drawing, chart.title, legend_of(chart.series));
  Frame frame = draw_axes(drawing, top, chart.x, chart.y, x, y, AxisScale::Ends::at_ticks);
  constexpr std::size_t few_points = 400;  // more would make the page heavy
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (series.x.size() <= few_points)
      draw_points(drawing, frame, series, "dots cloud " + colour_class(s), 2.6);
    else
      draw_cloud(drawing, frame, series, colour_class(s));
  }
  return drawing.element(chart_width, height_of(frame, chart.x), chart.title);
}

std::string svg(const Histogram& chart) {
  require(chart.bins > 0, "histogram '{}': {} bins, at least 1 is needed", chart.title, chart.bins);
  Values x;
  for (const auto& group : chart.groups) x.push_back(group.values);
  AxisScale range(chart.x, x, AxisScale::Ends::at_data, 0, chart.bins);  // pixel = bin
  auto bins = std::size_t(chart.bins);
  std::vector<std::vector<double>> shares;
  for (const auto& group : chart.groups) {
    shares.emplace_back(bins, 0.0);
    for (double value : group.values) {
      if (!range.can_show(value) || value < range.low() || value > range.high()) continue;
      auto bin = std::min(std::size_t(range.pixel(value)), bins - 1);
      shares.back()[bin] += 100 / double(group.values.size());
    }
  }
  Axis y_axis{"share of values (%)", false, 0.0, {}};
  Values y(shares.begin(), shares.end());
  Drawing drawing;
  std::vector<LegendEntry> legend;
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    if (!chart.groups[g].name.empty()) legend.push_back({chart.groups[g].name, g, ""});
  }
  double top = draw_head(drawing, chart.title, legend);
  Axis x_axis = chart.x;
  x_axis.low = range.low(), x_axis.high = range.high();
  Frame frame = draw_axes(drawing, top, x_axis, y_axis, x, y, AxisScale::Ends::at_data);
  double width = (frame.right - frame.left) / double(bins);
  for (std::size_t g = 0; g < shares.size(); ++g) {
    std::string outline = fmt::format("M{} {}", px(frame.left), px(frame.bottom));
    for (std::size_t b = 0; b < bins; ++b) {
      outline += fmt::format("V{}h{:.3f}", px(frame.y.pixel(shares[g][b])), width);
    }
    outline += fmt::format("V{}Z", px(frame.bottom));
    drawing.raw(fmt::format("<path class=\"bars {}\" d=\"{}\"/>\n", colour_class(g), outline));
  }
  return drawing.element(chart_width, height_of(frame, chart.x), chart.title);
}

std::string stacked(const std::vector<std::string>& svgs) {
  if (svgs.size() == 1) return svgs.front();
  constexpr double gap = 24;
  double width = 0, y = 0;
  std::string body;
  for (const std::string& each : svgs) {
    const auto size = [&](const char* name) {
      return std::strtod(each.c_str() + each.find(name) + std::string_view(name).size(), nullptr);
    };
    body += fmt::format("<svg y=\"{}\" {}\n", px(y), each.substr(std::string_view("<svg ").size()));
    width = std::max(width, size("width=\""));
    y += size("height=\"") + gap;
  }
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n{2}</svg>",
      px(width), px(std::max(y - gap, 0.0)), body);
}

namespace {

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

/// The text with every `from` replaced by `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// chart_style() in the light colours without variables, which programs other than browsers do not know: rules with the
/// colour of a series ("var(--c)") become one rule for each colour.
std::string style_of_files() {
  std::string style;
  const std::string rules(chart_style());
  for (std::size_t at = 0, end = rules.find('}'); end != std::string::npos; at = end + 1, end = rules.find('}', at)) {
    const std::string rule = rules.substr(at, end + 1 - at);
    if (rule.find("--c:") != std::string::npos) continue;
    if (rule.find("var(--c)") == std::string::npos) {
      style += rule;
      continue;
    }
    for (std::size_t k = 0; k < colours; ++k)
      style += "\n" + replaced(replaced(rule.substr(rule.find('.')), "var(--c)", fmt::format("var(--c{})", k)), " {",
                               fmt::format(".c{} {{", k));
  }
  for (const PaletteColour& colour : palette)
    style = replaced(style, fmt::format("var(--{})", colour.name), colour.light);
  return style;
}

}  // namespace

std::string file_of(const std::string& svg) {
  constexpr double margin = 6;
  const std::size_t behind_tag = svg.find('>') + 1;
  const auto size = [&](const char* name) {
    return std::strtod(svg.c_str() + svg.find(name) + std::string_view(name).size(), nullptr) + 2 * margin;
  };
  const std::string width = px(size("width=\"")), height = px(size("height=\""));
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" "
             "width=\"{0}\" height=\"{1}\" viewBox=\"-{2} -{2} {0} {1}\">\n<style>{3}</style>\n"
             "<rect x=\"-{2}\" y=\"-{2}\" width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>",
             width, height, px(margin), style_of_files()) +
         svg.substr(behind_tag) + "\n";
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
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.curve { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 5 4; } .dotted { stroke-dasharray: 1 4; } .band { fill: var(--c); fill-opacity: .1; }
.dots { fill: var(--c); } .cloud { fill-opacity: .55; }
path.cloud { fill: none; stroke: var(--c); stroke-width: 4; stroke-linecap: round; stroke-opacity: .55; }
.bars { fill: var(--c); fill-opacity: .32; stroke: var(--c); stroke-width: 1.2; }
.panel { fill: var(--panel); } .cells rect, .cells path { fill: var(--hot); } .cells .cold { fill: var(--cold); }
.cells path { stroke: var(--panel); stroke-width: .08; }
.cells .missing { fill: var(--line); } .cells rect:hover { stroke: var(--ink); }
.spread { stroke: var(--c1); stroke-width: 1.3; stroke-opacity: .75; } .center { fill: var(--c1); }
.node { fill: var(--panel); stroke: var(--faint); } .leaf { stroke: var(--accent); stroke-width: 2; }
.edge { fill: none; stroke: var(--faint); stroke-width: 1.3; }
.marked { fill: none; stroke: var(--c1); stroke-width: 2; pointer-events: none; }
)";
}

}  // namespace fovea
