#include "experiments/support/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/drawing.h"
#include "tensor/error.h"

namespace fovea {

namespace {

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
  if (!(high_ > low_)) {
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

}  // namespace fovea
