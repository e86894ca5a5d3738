#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/drawing.h"
#include "experiments/support/report/svg.h"
#include "tensor/error.h"

namespace fovea {
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
