#include "experiments/support/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/html.h"
#include "tensor/error.h"

namespace fovea {

double text_pixels(const std::string& text, double size) {
  // Widths in DejaVu Sans, the widest font of the style: most letters have less than 0.65 of its size, these have more.
  constexpr double per_letter = 0.65, wide_letter = 1.0, capital = 0.79;
  double letters = per_letter * double(display_width(text));
  for (char c : text) {
    if (std::string_view("mwMW@%").find(c) != std::string_view::npos)
      letters += wide_letter - per_letter;
    else if (c >= 'A' && c <= 'Z')
      letters += capital - per_letter;
  }
  return size * letters;
}

// ---- The pieces of an <svg> element

namespace {

// Pixels. Two charts stand beside each other on a page.
constexpr double chart_width = 500, page_width = 1092;
constexpr double title_height = 26, axis_label_height = 20;

/// A length for SVG, rounded to a tenth of a pixel, without a decimal for whole numbers.
std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// The width of the longest of the tokens, each cut to `longest` characters, in pixels.
double longest_label(const std::vector<std::string>& tokens, std::size_t longest, double size) {
  double pixels = 0;
  for (const std::string& token : tokens)
    pixels = std::max(pixels, text_pixels(shortened(printable(token), longest), size));
  return pixels;
}

/// The body of an <svg> element, appended to piece by piece.
class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* style) {
    body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, px(x1), px(y1),
                         px(x2), px(y2));
  }

  /// Adds a text whose `anchor` (start, middle or end) is at (x, y), turned around that point.
  void text(double x, double y, const std::string& text, const char* style, const char* anchor = "start",
            double degrees = 0) {
    std::string turn = degrees != 0 ? fmt::format(" transform=\"rotate({} {} {})\"", px(degrees), px(x), px(y)) : "";
    body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", style, px(x), px(y),
                         anchor, turn, escape_html(text));
  }

  void raw(const std::string& elements) { body_ += elements; }

  std::string element(double width, double height, const std::string& description) const {
    return fmt::format(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\">\n{3}</svg>",
        px(width), px(height), escape_html(description), body_);
  }

 private:
  std::string body_;
};

// ---- Curves and points

constexpr std::size_t colours = 8;

std::string colour_class(std::size_t series) { return fmt::format("c{}", series % colours); }

/// Series of the same colour differ in their strokes.
const char* stroke_of(const Series& series, std::size_t number) {
  if (number >= 2 * colours) return " dotted";
  return series.dashed || number >= colours ? " dashed" : "";
}

/// The values of all series along an axis, and the ends of bands.
std::vector<double> values_of(const LineChart& chart, std::vector<double> Series::*values, bool has_bands) {
  std::vector<double> all;
  for (const Series& s : chart.series)
    for (std::size_t i = 0; i < (s.*values).size(); ++i) {
      const double value = (s.*values)[i], deviation = has_bands && !s.deviation.empty() ? s.deviation[i] : 0;
      all.insert(all.end(), {value, value + deviation, value - deviation});
    }
  return all;
}

/// A chart: title and legend, below them two axes around the plot.
class Plot {
 public:
  explicit Plot(const LineChart& chart)
      : chart_(chart),
        x_(chart.x, values_of(chart, &Series::x, false),
           chart.points ? AxisScale::Ends::at_ticks : AxisScale::Ends::at_data, 0, 1),
        y_(chart.y, values_of(chart, &Series::y, true), AxisScale::Ends::at_ticks, 0, 1) {
    constexpr double plot_height = 240;
    double top = draw_head();
    if (!chart.y.label.empty()) drawing_.text(0, top + 11, chart.y.label, "axis"), top += axis_label_height;
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
    height_ = bottom_ + draw_ticks();
    if (!chart.x.label.empty()) drawing_.text(middle, height_ += axis_label_height, chart.x.label, "axis", "middle");
    draw_bands();
    if (!draw_series()) drawing_.text(middle, (top + bottom_) / 2, "no data", "axis", "middle");
  }

  std::string element() const { return drawing_.element(chart_width, height_ + 8, chart_.title); }

 private:
  bool shows(double x, double y) const { return AxisScale::can_show(x) && AxisScale::can_show(y); }
  /// "12 34.5"
  std::string at(double x, double y) const { return px(x_.pixel(x)) + " " + px(y_.pixel(y)); }
  void path(const std::string& style, const std::string& d) {
    drawing_.raw(fmt::format("<path class=\"{}\" d=\"{}\"/>\n", style, d));
  }

  /// Title, then the legend in as many rows as it needs. Returns where the plot may begin.
  double draw_head() {
    constexpr double swatch = 18, gap = 16, longest_name = chart_width - 40, row = 19;
    if (!chart_.title.empty()) drawing_.text(0, 15, chart_.title, "title");
    double x = 0, y = chart_.title.empty() ? 0 : title_height;
    bool has_row = false;
    for (std::size_t k = 0; k < chart_.series.size(); ++k) {
      const Series& series = chart_.series[k];
      if (series.name.empty()) continue;
      std::string name = series.name;
      for (std::size_t most = name.size(); text_pixels(name) > longest_name; --most)
        name = shortened(series.name, most);
      const double width = swatch + 6 + text_pixels(name);
      if (has_row && x + width > chart_width) x = 0, y += row;
      path(fmt::format("curve {}{}", colour_class(k), stroke_of(series, k)),
           fmt::format("M{} {}h{}", px(x), px(y + 9), px(swatch)));
      drawing_.text(x + swatch + 6, y + 13, name, "legend");
      x += width + gap;
      has_row = true;
    }
    return y + (has_row ? row + 6 : 0);
  }

  /// Draws the ticks and labels of the horizontal axis, and returns the height that the labels take. Of many tokens
  /// only every second, third, ... is written.
  double draw_ticks() {
    const Axis& axis = chart_.x;
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
    const auto stride = std::size_t(std::max(1.0, std::ceil(font_size / distance)));
    for (std::size_t i = 0; i < axis.tokens.size(); i += stride) {
      const double at = double(i);
      if (at < x_.low() || at > x_.high()) continue;
      drawing_.text(mark(at) + 4, bottom_ + 8, shortened(printable(axis.tokens[i]), longest), "token", "end", -90);
    }
    return longest_label(axis.tokens, longest, font_size) + 10;
  }

  /// Draws the points, as lines of no length, which round ends make dots, and curves, which break where a point cannot
  /// be shown. Returns whether there is any point.
  bool draw_series() {
    constexpr std::size_t few_points = 60;
    bool has_any = false;
    for (std::size_t s = 0; s < chart_.series.size(); ++s) {
      const Series& series = chart_.series[s];
      const std::string stroke = stroke_of(series, s), colour = colour_class(s);
      std::string curve, dots;
      bool is_pen_down = false;
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        const bool shown = shows(series.x[i], series.y[i]);
        if (shown) curve += (is_pen_down ? "L" : "M") + at(series.x[i], series.y[i]);
        if (shown) dots += "M" + at(series.x[i], series.y[i]) + "h0";
        is_pen_down = shown;
        has_any = has_any || shown;
      }
      if (!chart_.points) path("curve " + colour + stroke, curve);
      if (chart_.points || (series.x.size() <= few_points && stroke.empty()))
        path((chart_.points ? "dots cloud " : "dots ") + colour, dots);
    }
    return has_any;
  }

  /// Mean plus and minus deviation, there and back. Points without a deviation end a part.
  void draw_bands() {
    for (std::size_t s = 0; s < chart_.series.size(); ++s) {
      const Series& series = chart_.series[s];
      std::string all, there, back;
      for (std::size_t i = 0; i <= series.deviation.size(); ++i) {
        const bool is_end = i == series.deviation.size() || !shows(series.x[i], series.y[i] + series.deviation[i]);
        if (is_end && !there.empty()) all += fmt::format("M{}L{}Z", std::exchange(there, ""), std::exchange(back, ""));
        if (is_end) continue;
        there += (there.empty() ? "" : "L") + at(series.x[i], series.y[i] + series.deviation[i]);
        back = at(series.x[i], series.y[i] - series.deviation[i]) + (back.empty() ? "" : "L" + back);
      }
      if (!series.deviation.empty()) path("band " + colour_class(s), all);
    }
  }

  const LineChart& chart_;
  Drawing drawing_;
  AxisScale x_, y_;
  double left_ = 0, right_ = chart_width - 14, bottom_ = 0, height_ = 0;
};

}  // namespace

std::string svg(const LineChart& chart) { return Plot(chart).element(); }

namespace {

/// Width and height of an <svg> element.
std::pair<double, double> size_of(const std::string& svg) {
  const auto size = [&](std::string_view name) {
    return std::strtod(svg.c_str() + svg.find(name) + name.size(), nullptr);
  };
  return {size("width=\""), size("height=\"")};
}

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
  const auto [width, height] = size_of(svg);
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" "
             "width=\"{0}\" height=\"{1}\" viewBox=\"-{2} -{2} {0} {1}\">\n<style>{3}</style>\n"
             "<rect x=\"-{2}\" y=\"-{2}\" width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>",
             px(width + 2 * margin), px(height + 2 * margin), px(margin), chart_style()) +
         svg.substr(svg.find('>') + 1) + "\n";
}

std::string_view chart_style() {
  return R"(
.chart { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
.chart text { fill: #1b1f24; } .chart .title { font-size: 14px; font-weight: 600; }
.chart .tick, .chart .axis { fill: #626b76; } .chart .tick { font-variant-numeric: tabular-nums; }
.chart .grid { stroke: #dfe3e8; } .chart .base { stroke: #626b76; }
.c0 { color: #0b6fb8; } .c1 { color: #d1570a; } .c2 { color: #0a8a63; } .c3 { color: #b5477f; }
.c4 { color: #c08a00; } .c5 { color: #6a51c7; } .c6 { color: #3aa0c9; } .c7 { color: #59636e; }
.curve { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 5 4; } .dotted { stroke-dasharray: 1 4; } .band { fill: currentColor; fill-opacity: .1; }
.dots { fill: none; stroke: currentColor; stroke-width: 5; stroke-linecap: round; } .cloud { stroke-opacity: .55; }
.panel { fill: #f5f6f8; } .cells rect, .cells path { fill: #0b5cad; } .cells .cold { fill: #c2452d; }
.cells path { stroke: #f5f6f8; stroke-width: .08; }
.cells .missing { fill: #dfe3e8; }
.spread { stroke: #d1570a; stroke-width: 1.3; stroke-opacity: .75; } .center { fill: #d1570a; }
.marked { fill: none; stroke: #d1570a; stroke-width: 2; pointer-events: none; }
)";
}

namespace {

constexpr int wanted_ticks = 5;

/// The smallest of 1, 2, 5 and 10 times a power of ten that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string with_true_minus(const std::string& text) { return text.starts_with('-') ? "−" + text.substr(1) : text; }

}  // namespace

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values, Ends ends, double first_pixel,
                     double last_pixel)
    : first_pixel_(first_pixel), last_pixel_(last_pixel) {
  low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
  for (double value : values)
    if (can_show(value)) low_ = std::min(low_, value), high_ = std::max(high_, value);
  if (low_ > high_) low_ = 0, high_ = 1;
  const auto bound = [&] {
    low_ = std::max(low_, axis.least.value_or(low_)), high_ = std::min(high_, axis.most.value_or(high_));
  };
  bound();
  // a range so narrow that doubles can't hold its ticks counts as one number
  if (!(high_ - low_ > 1e-12 * std::abs(low_))) {
    const double room = low_ == 0 ? 1 : std::max(std::abs(low_) * 0.1, 1e-6);
    low_ -= room, high_ += room;
  }
  step_ = round_up((high_ - low_) / wanted_ticks);
  if (ends == Ends::at_ticks) low_ = std::floor(low_ / step_ + 1e-9) * step_;
  if (ends == Ends::at_ticks) high_ = std::ceil(high_ / step_ - 1e-9) * step_;
  bound();
}

bool AxisScale::can_show(double value) { return std::isfinite(value); }

double AxisScale::pixel(double value) const {
  const double position = (value - low_) / (high_ - low_);
  return first_pixel_ + std::clamp(position, 0.0, 1.0) * (last_pixel_ - first_pixel_);
}

std::vector<double> AxisScale::ticks() const {
  std::vector<double> ticks;
  const double tolerance = 1e-9 * (high_ - low_);
  for (double k = std::ceil((low_ - tolerance) / step_); k * step_ <= high_ + tolerance; ++k)
    ticks.push_back(k * step_);
  return ticks;
}

std::string AxisScale::label(double tick) const {
  return std::abs(tick) < 1e-9 * step_ ? "0" : with_true_minus(fmt::format("{:.7g}", tick));
}

// ---- Maps of attention

namespace {

constexpr std::size_t most_columns = 4, longest_token = 16;
constexpr double gap = 16, scale_width = 66;

/// Where the maps are: one as large as a chart, several as small as `most_columns` of them fit beside each other.
struct Layout {
  double cell, label_size, left, top, width, height;  ///< top: of the first row of maps
  std::size_t columns;
  double between;  ///< rows of maps, with the labels above each

  explicit Layout(const HeadMaps& maps) {
    constexpr double smallest_cell = 3;
    const bool single = maps.heads.size() <= 1;
    const double largest_cell = single ? 24 : 17, page = single ? chart_width : page_width;
    columns = std::clamp<std::size_t>(maps.heads.size(), 1, most_columns);
    const double room = page - longest_label(maps.queries, longest_token, font_size) - axis_label_height - scale_width;
    const double for_one = room / (single ? 1 : most_columns) - gap;
    cell = std::clamp(std::floor(for_one / double(std::max<std::size_t>(maps.keys.size(), 1))), smallest_cell,
                      largest_cell);
    label_size = std::min(font_size - 1, cell - 1);
    left = longest_label(maps.queries, longest_token, label_size) + 6 + axis_label_height;
    const double labels = longest_label(maps.keys, longest_token, label_size) + 26;
    top = (maps.title.empty() ? 0 : title_height) + labels;
    width = cell * double(maps.keys.size()), height = cell * double(maps.queries.size());
    between = height + gap + labels;
  }
  double x(std::size_t head) const { return left + double(head % columns) * (width + gap); }
  double y(std::size_t head) const { return top + double(head / columns) * between; }
  double right() const { return left + double(columns) * (width + gap); }
};

constexpr int strengths = 24;

/// The cells of a map as one path for each of a few strengths, which takes about 12 bytes for a visible cell. A cell is
/// a square of one unit, which is drawn `width` pixels wide and `height` high.
void draw_cells(Drawing& drawing, const std::vector<double>& values, std::size_t keys, double x, double y, double width,
                double height, double full) {
  struct Path {
    std::string cells, style;
  };
  std::array<Path, 2 * strengths + 2> paths;  // hot, cold, and the missing ones
  for (int k = 0; k <= strengths; ++k) {
    const std::string opacity = fmt::format("fill-opacity=\"{:.2g}\"", double(k) / strengths);
    paths[std::size_t(k)].style = opacity;
    paths[std::size_t(strengths + k)].style = "class=\"cold\" " + opacity;
  }
  paths.back().style = "class=\"missing\"";
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double value = values[k];
    const auto strength =
        std::isfinite(value) ? std::size_t(std::lround(std::min(std::abs(value) / full, 1.0) * strengths)) : 0;
    if (std::isfinite(value) && strength == 0) continue;
    Path& path = std::isfinite(value) ? paths[strength + (value < 0 ? strengths : 0)] : paths.back();
    path.cells += fmt::format("M{} {}h1v1h-1z", k % keys, k / keys);
  }
  drawing.raw(fmt::format("<g class=\"cells\" transform=\"translate({} {}) scale({} {})\">\n", px(x), px(y), px(width),
                          px(height)));
  for (const Path& path : paths)
    if (!path.cells.empty()) drawing.raw(fmt::format("<path {} d=\"{}\"/>\n", path.style, path.cells));
  drawing.raw("</g>\n");
}

/// A bar from the colour of `high` down to that of `low`, with both as labels; about 44 pixels wide.
void draw_colour_scale(Drawing& drawing, double x, double top, double height, double low, double high) {
  constexpr double width = 10, shortest = 60, tallest = 160;
  height = std::clamp(height, shortest, tallest);
  std::vector<double> values;
  for (int k = 0; k < strengths; ++k) values.push_back(high - (high - low) * (k + 0.5) / strengths);
  draw_cells(drawing, values, 1, x, top, width, height / strengths, std::max(high, -low));
  drawing.text(x + width + 5, top + 9, fmt::format("{:.3g}", high), "tick");
  drawing.text(x + width + 5, top + height, fmt::format("{:.3g}", low), "tick");
  if (low < 0 && high > 0) drawing.text(x + width + 5, top + height * high / (high - low) + 4, "0", "tick");
}

/// Outlines of marked cells; centres and widths. Key j is the interval [j, j + 1] of the drawing, with the centre j +
/// 0.5.
void draw_marks(Drawing& drawing, const HeadMaps::Head& head, double x, double y, double cell, double keys) {
  for (auto [i, j] : head.marked)
    drawing.raw(fmt::format("<rect class=\"marked\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                            px(x + j * cell - 0.5), px(y + i * cell - 0.5), px(cell), px(cell)));
  auto pixel = [&](double key) { return x + std::clamp(key + 0.5, 0.0, keys) * cell; };
  for (std::size_t i = 0; i < head.center.size(); ++i) {
    const double row = y + (double(i) + 0.5) * cell, half = i < head.width.size() ? head.width[i] / 2 : 0;
    if (!std::isfinite(head.center[i]) || !std::isfinite(half)) continue;
    if (half > 0) drawing.line(pixel(head.center[i] - half), row, pixel(head.center[i] + half), row, "spread");
    drawing.raw(fmt::format("<circle class=\"center\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", px(pixel(head.center[i])),
                            px(row), px(std::clamp(cell / 6, 1.2, 2.4))));
  }
}

void draw_labels(Drawing& drawing, const HeadMaps& maps, const Layout& at, std::size_t head) {
  constexpr double smallest_readable = 6;
  const double x = at.x(head), y = at.y(head);
  const std::string& name = maps.heads[head].name;
  drawing.text(x, at.y(head) - at.top + (maps.title.empty() ? 0 : title_height) + 12, name.empty() ? "key" : name,
               "axis");
  if (head == 0) drawing.text(11, y + at.height / 2, "query", "axis", "middle", -90);
  if (at.label_size < smallest_readable) return;
  drawing.raw(fmt::format("<g style=\"font-size:{}px\">\n", px(at.label_size)));
  const double middle = at.cell / 2 + at.label_size / 3;
  auto label = [](const std::string& token) { return shortened(printable(token), longest_token); };
  for (std::size_t j = 0; j < maps.keys.size(); ++j)
    drawing.text(x + double(j) * at.cell + middle, y - 4, label(maps.keys[j]), "token", "start", -90);
  for (std::size_t i = 0; head % at.columns == 0 && i < maps.queries.size(); ++i)
    drawing.text(at.left - 5, y + double(i) * at.cell + middle, label(maps.queries[i]), "token", "end");
  drawing.raw("</g>\n");
}

}  // namespace

std::string svg(const HeadMaps& maps) {
  double full = 0, low = 0;
  bool centers = false;
  for (const HeadMaps::Head& head : maps.heads) {
    for (double value : head.values)
      if (std::isfinite(value)) full = std::max(full, std::abs(value)), low = std::min(low, value);
    centers = centers || !head.center.empty();
  }
  full = std::max(maps.high.value_or(full), -maps.low.value_or(0));
  if (full == 0) full = 1;
  const Layout at(maps);
  Drawing drawing;
  if (!maps.title.empty()) drawing.text(0, 15, maps.title, "title");
  for (std::size_t h = 0; h < maps.heads.size(); ++h) {
    draw_labels(drawing, maps, at, h);
    drawing.raw(fmt::format("<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", px(at.x(h)),
                            px(at.y(h)), px(at.width), px(at.height)));
    draw_cells(drawing, maps.heads[h].values, maps.keys.size(), at.x(h), at.y(h), at.cell, at.cell, full);
    draw_marks(drawing, maps.heads[h], at.x(h), at.y(h), at.cell, double(maps.keys.size()));
  }
  draw_colour_scale(drawing, at.right(), at.top, at.height, maps.low.value_or(low < 0 ? -full : 0),
                    maps.high.value_or(full));
  constexpr double shortest_scale = 60, legend_height = 18;
  const double last = maps.heads.empty() ? at.top : at.y(maps.heads.size() - 1) + at.height + gap;
  double height = std::max(last, at.top + shortest_scale + gap);
  if (centers) {
    drawing.text(at.left, height + 6, "orange: the window's center and width", "tick");
    height += legend_height;
  }
  return drawing.element(std::max(at.right() + scale_width, text_pixels(maps.title, 14)), height, maps.title);
}

}  // namespace fovea
